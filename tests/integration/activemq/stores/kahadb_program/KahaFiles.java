import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Collections;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.QueueBrowser;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.ScheduledMessage;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;
import org.apache.activemq.command.ActiveMQQueue;
import org.apache.activemq.store.kahadb.KahaDBPersistenceAdapter;
import org.apache.activemq.store.kahadb.data.KahaDestroySchedulerCommand;
import org.apache.activemq.store.kahadb.data.KahaEntryType;
import org.apache.activemq.store.kahadb.data.KahaLocalTransactionId;
import org.apache.activemq.store.kahadb.data.KahaLocation;
import org.apache.activemq.store.kahadb.data.KahaRollbackCommand;
import org.apache.activemq.store.kahadb.data.KahaTransactionInfo;

/**
 * Writes a KahaDB of every record kind (`write DIR`), or tells what one holds (`read DIR`).
 * `write` prints WRITTEN when all is on disk and runs on until a line comes in.
 */
public final class KahaFiles {
    private static final String URL = "vm://kaha?create=false&jms.useAsyncSend=true";
    private static final byte[] KILOBYTE = new byte[1000];

    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[1]);
        BrokerService broker = broker(folder);
        broker.start();
        broker.waitUntilStarted();
        samples();
        if (arguments[0].equals("read")) {
            read();
        } else {
            write(broker, new File(folder, "kahadb"));
            System.out.println("WRITTEN");
            System.out.flush();
            new BufferedReader(new InputStreamReader(System.in)).readLine();
        }
        broker.stop();
        broker.waitUntilStopped();
        System.out.println("STOPPED");
    }

    /** What no broker of this version writes by itself, as its own classes encode it. */
    private static void samples() {
        sample(KahaEntryType.KAHA_DESTROY_SCHEDULER_COMMAND, new KahaDestroySchedulerCommand().setScheduler("spare"));
        KahaTransactionInfo info = new KahaTransactionInfo();
        info.setLocalTransactionId(
            new KahaLocalTransactionId().setConnectionId("ID:a-1").setTransactionId(300));
        info.setPreviousEntry(new KahaLocation().setLogId(3).setOffset(70000));
        sample(KahaEntryType.KAHA_ROLLBACK_COMMAND, new KahaRollbackCommand().setTransactionInfo(info));
    }

    private static void sample(KahaEntryType type, org.apache.activemq.protobuf.BaseMessage<?> command) {
        StringBuilder line = new StringBuilder("sample ").append(String.format("%02x", type.getNumber()));
        for (byte value : command.toFramedByteArray()) {
            line.append(String.format("%02x", value));
        }
        System.out.println(line);
    }

    private static BrokerService broker(File folder) throws Exception {
        KahaDBPersistenceAdapter store = new KahaDBPersistenceAdapter();
        store.setDirectory(new File(folder, "kahadb"));
        store.setDirectoryArchive(new File(folder, "archive"));
        store.setArchiveDataLogs(true);
        store.setJournalMaxFileLength(256 * 1024);
        store.setCheckpointInterval(100);
        store.setCleanupInterval(100);
        store.setCompactAcksAfterNoGC(2);
        store.setCompactAcksIgnoresStoreGrowth(true);
        PolicyEntry flagged = new PolicyEntry();
        flagged.setQueue("flagged");
        flagged.setPersistJMSRedelivered(true);
        PolicyMap policies = new PolicyMap();
        policies.setPolicyEntries(Collections.singletonList(flagged));
        BrokerService broker = new BrokerService();
        broker.setBrokerName("kaha");
        broker.setUseJmx(false);
        broker.setDataDirectoryFile(folder);
        broker.setPersistenceAdapter(store);
        broker.setDestinationPolicy(policies);
        broker.setSchedulerSupport(true);
        broker.setSchedulerDirectoryFile(new File(folder, "scheduler"));
        return broker;
    }

    private static void write(BrokerService broker, File journal) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(URL).createConnection();
        connection.setClientID("reader");
        connection.start();
        queues(connection);
        subscriptions(connection);
        localTransactions(connection);
        xaTransactions();
        jobs(connection, broker);
        ackOnlyFiles(connection, journal);
        connection.close();
    }

    private static void queues(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("kinds"));
        for (int i = 0; i < 50; i++) {
            TextMessage text = session.createTextMessage("text \u00e9 \ud83d\ude00 " + i);
            text.setStringProperty("colour", i % 2 == 0 ? "red" : "blue");
            text.setLongProperty("number", i);
            text.setJMSType("type");
            text.setJMSCorrelationID("c-" + i);
            text.setJMSReplyTo(session.createQueue("answers"));
            producer.setPriority(i % 10);
            producer.send(text);
            BytesMessage bytes = session.createBytesMessage();
            bytes.writeBytes(new byte[] {0, 1, (byte) 200, (byte) i});
            producer.send(bytes);
            MapMessage map = session.createMapMessage();
            map.setInt("i", i);
            map.setString("s", "v");
            producer.send(map);
            producer.send(session.createMessage());
            producer.send(session.createObjectMessage("object " + i));
        }
        MessageConsumer consumer = session.createConsumer(session.createQueue("kinds"));
        for (int i = 0; i < 100; i++) {
            need(consumer.receive(5000));
        }
        consumer.close();
        producer = session.createProducer(session.createQueue("gone"));
        producer.send(session.createTextMessage("x"));
        need(receiveOne(session, "gone"));
        ((org.apache.activemq.ActiveMQConnection) connection).destroyDestination(new ActiveMQQueue("gone"));
        BytesMessage large = session.createBytesMessage();
        for (int i = 0; i < 600; i++) {
            large.writeBytes(KILOBYTE);
        }
        session.createProducer(session.createQueue("large")).send(large);
        session.close();
        flagged(connection);
    }

    private static void flagged(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue("flagged"));
        for (int i = 0; i < 5; i++) {
            producer.send(session.createTextMessage("flagged " + i));
        }
        session.commit();
        need(receiveOne(session, "flagged"));
        session.rollback();
        session.close();
    }

    private static void subscriptions(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic news = session.createTopic("news");
        MessageConsumer all = session.createDurableSubscriber(news, "all");
        session.createDurableSubscriber(news, "red", "colour = 'red'", false).close();
        session.createDurableSubscriber(news, "brief", null, true).close();
        MessageProducer producer = session.createProducer(news);
        for (int i = 0; i < 40; i++) {
            Message message = session.createTextMessage("news " + i);
            message.setStringProperty("colour", i % 2 == 0 ? "red" : "blue");
            producer.send(message);
        }
        for (int i = 0; i < 20; i++) {
            need(all.receive(5000));
        }
        all.close();
        session.unsubscribe("brief");
        session.close();
    }

    private static void localTransactions(Connection connection) throws Exception {
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        MessageProducer producer = session.createProducer(session.createQueue("local"));
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < 5; i++) {
                producer.send(session.createTextMessage("local " + round + " " + i));
            }
            if (round > 0) {
                MessageConsumer consumer = session.createConsumer(session.createQueue("local"));
                need(consumer.receive(5000));
                consumer.close();
            }
            if (round % 4 == 3) {
                session.rollback();
            } else {
                session.commit();
            }
        }
        session.close();
    }

    private static void xaTransactions() throws Exception {
        XAConnection connection = new ActiveMQXAConnectionFactory(URL).createXAConnection();
        connection.start();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        for (int i = 0; i < 12; i++) {
            Xid xid = new Branch(i % 2 == 0 ? 7 : -7, i);
            resource.start(xid, XAResource.TMNOFLAGS);
            MessageProducer producer = session.createProducer(session.createQueue("xa"));
            for (int j = 0; j < 3; j++) {
                producer.send(session.createTextMessage("xa " + i + " " + j));
            }
            producer.close();
            if (i > 4) {
                need(receiveOne(session, "xa?consumer.prefetchSize=0"));
            }
            resource.end(xid, XAResource.TMSUCCESS);
            if (i % 4 == 0) {
                resource.commit(xid, true);
                continue;
            }
            resource.prepare(xid);
            if (i % 4 == 1) {
                resource.commit(xid, false);
            } else if (i % 4 == 2) {
                resource.rollback(xid);
            }
        }
        connection.close();
    }

    private static void jobs(Connection connection, BrokerService broker) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("later"));
        TextMessage message = session.createTextMessage("far");
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 3_600_000);
        producer.send(message);
        message = session.createTextMessage("cron");
        message.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_CRON, "0 1 1 1 *");
        producer.send(message);
        message = session.createTextMessage("often");
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 20);
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_PERIOD, 20);
        message.setIntProperty(ScheduledMessage.AMQ_SCHEDULED_REPEAT, 3);
        producer.send(message);
        message = session.createTextMessage("for ever");
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 20);
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_PERIOD, 20);
        message.setIntProperty(ScheduledMessage.AMQ_SCHEDULED_REPEAT, 900);
        producer.send(message);
        MessageConsumer consumer = session.createConsumer(session.createQueue("later"));
        for (int i = 0; i < 8; i++) {
            need(consumer.receive(10000));
        }
        MessageProducer manager =
            session.createProducer(session.createTopic(ScheduledMessage.AMQ_SCHEDULER_MANAGEMENT_DESTINATION));
        Message request = session.createMessage();
        request.setStringProperty(
            ScheduledMessage.AMQ_SCHEDULER_ACTION, ScheduledMessage.AMQ_SCHEDULER_ACTION_REMOVEALL);
        long now = System.currentTimeMillis();
        request.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION_START_TIME, Long.toString(now - 60_000));
        request.setStringProperty(ScheduledMessage.AMQ_SCHEDULER_ACTION_END_TIME, Long.toString(now + 60_000));
        manager.send(request);
        broker.getJobSchedulerStore().getJobScheduler("spare").schedule(
            "spare-1", new org.apache.activemq.util.ByteSequence(KILOBYTE), "", 3_600_000, 1000, -1);
        broker.getJobSchedulerStore().getJobScheduler("spare").remove("spare-1");
        broker.getJobSchedulerStore().removeJobScheduler("spare");
        session.close();
    }

    /** Leaves files with nothing but acknowledgements, and waits until ActiveMQ has compacted some. */
    private static void ackOnlyFiles(Connection connection, File journal) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        MessageProducer producer = session.createProducer(session.createQueue("bulk"));
        for (int i = 0; i < 600; i++) {
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(KILOBYTE);
            producer.send(message);
        }
        MessageConsumer consumer = session.createConsumer(session.createQueue("bulk"));
        for (int i = 0; i < 600; i++) {
            need(consumer.receive(5000));
        }
        consumer.close();
        session.close();
        int last = lastFile(journal);
        for (int i = 0; i < 100 && lastFile(journal) == last; i++) {
            Thread.sleep(100);
        }
        Thread.sleep(500);
    }

    private static int lastFile(File journal) {
        int last = 0;
        for (String name : journal.list()) {
            if (name.matches("db-[0-9]+\\.log")) {
                last = Math.max(last, Integer.parseInt(name.substring(3, name.length() - 4)));
            }
        }
        return last;
    }

    private static void read() throws Exception {
        Connection connection = new ActiveMQConnectionFactory(URL).createConnection();
        connection.setClientID("reader");
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        for (String name : new String[] {"kinds", "large", "flagged", "local", "xa", "bulk"}) {
            QueueBrowser browser = session.createBrowser(session.createQueue(name));
            int count = Collections.list((java.util.Enumeration<?>) browser.getEnumeration()).size();
            browser.close();
            System.out.println("queue " + name + " " + count);
        }
        for (String name : new String[] {"all", "red"}) {
            Topic news = session.createTopic("news");
            MessageConsumer consumer = name.equals("red")
                ? session.createDurableSubscriber(news, "red", "colour = 'red'", false)
                : session.createDurableSubscriber(news, name);
            int count = 0;
            while (consumer.receive(500) != null) {
                count++;
            }
            consumer.close();
            System.out.println("subscription " + name + " " + count);
        }
        connection.close();
        XAConnection xa = new ActiveMQXAConnectionFactory(URL).createXAConnection();
        xa.start();
        Xid[] prepared = xa.createXASession().getXAResource().recover(XAResource.TMSTARTRSCAN);
        System.out.println("prepared " + prepared.length);
        xa.close();
    }

    private static Message receiveOne(Session session, String queue) throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        Message message = consumer.receive(5000);
        consumer.close();
        return message;
    }

    private static void need(Message message) {
        if (message == null) {
            throw new IllegalStateException("no message came");
        }
    }

    private record Branch(int format, int number) implements Xid {
        @Override public int getFormatId() {
            return format;
        }

        @Override public byte[] getGlobalTransactionId() {
            return new byte[] {1, 2, (byte) number};
        }

        @Override public byte[] getBranchQualifier() {
            return new byte[] {(byte) 255, 0, (byte) number};
        }
    }
}
