import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.transport.TransportListener;
import org.apache.activemq.transport.failover.FailoverTransport;

/** Listeners whose connection is lost, and restored, while they are in a call. */
final class Interruptions {
    static void register(Map<String, Probe.Scenario> scenarios) {
        scenarios.put("interrupted-listener", (url, a) -> interrupted(url, a.get(0), a.get(1), Integer.parseInt(a.get(2))));
    }

    private static void cut(FailoverTransport transport) {
        try {
            transport.handleTransportFailure(new IOException("cut"));
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    /**
     * Deliveries to a listener that loses its connection in its first call, and returns or throws once that is restored.
     * A message that was delivered again is no dead letter, which would be waited for.
     */
    private static Object interrupted(String url, String queue, String end, int mode) throws Exception {
        Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            javax.jms.TextMessage message = session.createTextMessage("first");
            message.setJMSCorrelationID(queue);
            session.createProducer(session.createQueue(queue)).send(message);
            Probe.send(session, session.createQueue(queue), "second");
            return null;
        });
        List<String> seen = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch resumed = new CountDownLatch(1);
        CountDownLatch second = new CountDownLatch(1);
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory("failover:(" + url + ")?initialReconnectDelay=10");
        factory.getRedeliveryPolicy().setInitialRedeliveryDelay(10);
        factory.getRedeliveryPolicy().setRedeliveryDelay(10);
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        try {
            connection.addTransportListener(new TransportListener() {
                @Override public void onCommand(Object command) { }
                @Override public void onException(IOException error) { }
                @Override public void transportInterupted() { }
                @Override public void transportResumed() { resumed.countDown(); }
            });
            connection.start();
            Session session = connection.createSession(false, mode);
            MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
            consumer.setMessageListener(message -> {
                try {
                    seen.add(Probe.delivery(message));
                    if (Probe.text(message).equals("second")) {
                        second.countDown();
                        return;
                    }
                    if (seen.size() > 1) {
                        return;
                    }
                    FailoverTransport transport = connection.getTransport().narrow(FailoverTransport.class);
                    new Thread(() -> cut(transport)).start();
                    if (!resumed.await(4 * Probe.PATIENCE, TimeUnit.MILLISECONDS)) {
                        seen.add("not resumed");
                    }
                } catch (Exception error) {
                    seen.add(error.toString());
                }
                if (end.equals("throws")) {
                    throw new IllegalStateException("listener fails");
                }
            });
            second.await(4 * Probe.PATIENCE, TimeUnit.MILLISECONDS);
            Thread.sleep(Probe.SHORT);
        } finally {
            connection.close();
        }
        boolean again = seen.stream().filter(delivery -> delivery.startsWith("first#")).count() > 1;
        return Probe.connected(url, c -> Probe.map("deliveries", seen, "left", Probe.left(c, queue),
                "dead", again ? null : Probe.dead(c, queue)));
    }
}
