import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.activemq.artemis.api.core.QueueConfiguration;
import org.apache.activemq.artemis.api.core.RoutingType;
import org.apache.activemq.artemis.api.core.SimpleString;
import org.apache.activemq.artemis.core.config.Configuration;
import org.apache.activemq.artemis.core.config.impl.ConfigurationImpl;
import org.apache.activemq.artemis.core.remoting.impl.netty.NettyAcceptor;
import org.apache.activemq.artemis.core.server.ActiveMQServer;
import org.apache.activemq.artemis.core.server.JournalType;
import org.apache.activemq.artemis.core.server.Queue;
import org.apache.activemq.artemis.core.server.embedded.EmbeddedActiveMQ;
import org.apache.activemq.artemis.core.settings.impl.AddressSettings;

/**
 * Artemis on a data folder, with OpenWire, and 3 seconds as the limit of transactions that are not prepared; the rest as in the broker.xml of its documentation.
 * Arguments: FOLDER PORT IDS DELETING ATTEMPTS: the size of the id cache, 0 for the default; whether addresses made by
 * themselves go when they are empty and unused; how often a message may be delivered.
 * Reads lines: count QUEUE | stop; the count of an address that is not there is -1.
 */
public final class ArtemisBroker {
    public static void main(String[] arguments) throws Exception {
        File data = new File(arguments[0]);
        boolean isDeleting = Boolean.parseBoolean(arguments[3]);
        AddressSettings settings = new AddressSettings()
                .setAutoDeleteQueues(isDeleting).setAutoDeleteAddresses(isDeleting)
                .setMaxDeliveryAttempts(Integer.parseInt(arguments[4]))
                .setDeadLetterAddress(SimpleString.of("DLQ")).setExpiryAddress(SimpleString.of("ExpiryQueue"));
        if (!arguments[2].equals("0")) {
            settings.setIDCacheSize(Integer.valueOf(arguments[2]));
        }
        Configuration configuration = new ConfigurationImpl()
                .setPersistenceEnabled(true).setSecurityEnabled(false).setJMXManagementEnabled(false)
                .setJournalType(JournalType.NIO)
                .setJournalDirectory(new File(data, "journal").getPath())
                .setBindingsDirectory(new File(data, "bindings").getPath())
                .setLargeMessagesDirectory(new File(data, "large").getPath())
                .setPagingDirectory(new File(data, "paging").getPath())
                .setMaxDiskUsage(-1)
                .setAddressQueueScanPeriod(isDeleting ? 100 : 30000)
                .setMessageExpiryScanPeriod(500)
                .setTransactionTimeout(3000).setTransactionTimeoutScanPeriod(500)
                .addAddressSetting("#", settings)
                .addQueueConfiguration(QueueConfiguration.of("DLQ").setRoutingType(RoutingType.ANYCAST))
                .addQueueConfiguration(QueueConfiguration.of("ExpiryQueue").setRoutingType(RoutingType.ANYCAST))
                .addAcceptorConfiguration("openwire", "tcp://127.0.0.1:" + arguments[1] + "?protocols=OPENWIRE&virtualTopicConsumerWildcards=Consumer.*.%3E%3B2");
        EmbeddedActiveMQ embedded = new EmbeddedActiveMQ().setConfiguration(configuration);
        embedded.start();
        ActiveMQServer server = embedded.getActiveMQServer();
        if (!server.waitForActivation(60, TimeUnit.SECONDS)) {
            throw new IllegalStateException("it does not become active");
        }
        NettyAcceptor acceptor = (NettyAcceptor) server.getRemotingService().getAcceptor("openwire");
        int port = arguments[1].equals("0") ? acceptor.getActualPort() : Integer.parseInt(arguments[1]);
        System.out.println("openwire accepts connections at tcp://127.0.0.1:" + port);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null && !line.equals("stop"); line = lines.readLine()) {
            System.out.println("count " + count(server, SimpleString.of(line.split(" ")[1])));
        }
        embedded.stop();
        System.exit(0);
    }

    /** What a transaction brought is counted a piece at a time, after the answer to its commit: wait for the last one. */
    private static long count(ActiveMQServer server, SimpleString name) throws InterruptedException {
        Queue queue = server.locateQueue(name);
        if (queue == null) {
            return server.getAddressInfo(name) == null ? -1 : 0;
        }
        long count = queue.getMessageCount();
        for (int same = 0; same < 10; same++) {
            Thread.sleep(20);
            queue.flushExecutor();
            if (queue.getMessageCount() != count) {
                count = queue.getMessageCount();
                same = 0;
            }
        }
        return count;
    }
}
