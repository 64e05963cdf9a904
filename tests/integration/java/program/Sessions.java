import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.RedeliveryPolicy;

/** Local transactions, acknowledgement, prefetch, redelivery. */
final class Sessions {
    static void register(Map<String, Probe.Scenario> scenarios) {
        scenarios.put("commit", (url, a) -> Probe.connected(url, c -> commit(c, a.get(0))));
        scenarios.put("rollback", (url, a) -> Probe.connected(url, c -> rollback(c, a.get(0))));
        scenarios.put("send-rollback", (url, a) -> Probe.connected(url, c -> sendRollback(c, a.get(0))));
        scenarios.put("close-in-transaction", (url, a) -> Probe.connected(url, c -> closeInTransaction(c, a.get(0))));
        scenarios.put("client-ack", (url, a) -> Probe.connected(url, c -> clientAck(c, a.get(0))));
        scenarios.put("recover", (url, a) -> Probe.connected(url, c -> recover(c, a.get(0))));
        scenarios.put("individual-ack", (url, a) -> Probe.connected(url, c -> individualAck(c, a.get(0))));
        scenarios.put("dups-ok", (url, a) -> Probe.connected(url, c -> dupsOk(c, a.get(0))));
        scenarios.put("listener-throws", (url, a) -> Probe.connected(url, c -> listenerThrows(c, a.get(0))));
        scenarios.put("pull", (url, a) -> Probe.connected(url, c -> pull(c, a.get(0))));
        scenarios.put("prefetch-one", (url, a) -> Probe.connected(url, c -> prefetchOne(c, a.get(0))));
        scenarios.put("bulk", (url, a) -> Probe.connected(url, c -> bulk(c, a.get(0), Integer.parseInt(a.get(1)))));
        scenarios.put("hold", (url, a) -> hold(url, a.get(0)));
        scenarios.put("send-texts", (url, a) -> Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            Probe.send(session, session.createQueue(a.get(0)), a.subList(1, a.size()).toArray(new String[0]));
            return null;
        }));
        scenarios.put("deliveries", (url, a) -> Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            return Probe.deliveries(session.createConsumer(session.createQueue(a.get(0))), Integer.parseInt(a.get(1)));
        }));
        scenarios.put("idle", (url, a) -> Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            MessageConsumer consumer = session.createConsumer(session.createQueue(a.get(0)));
            Message nothing = consumer.receive(Long.parseLong(a.get(1)));
            Probe.send(session, session.createQueue(a.get(0)), "still there");
            return Arrays.asList(nothing, Probe.text(consumer.receive(Probe.PATIENCE)));
        }));
    }

    private static Session transacted(Connection connection) throws JMSException {
        return connection.createSession(true, Session.SESSION_TRANSACTED);
    }

    private static void quickRedelivery(Connection connection) {
        RedeliveryPolicy policy = new RedeliveryPolicy();
        policy.setInitialRedeliveryDelay(5);
        policy.setRedeliveryDelay(5);
        ((ActiveMQConnection) connection).setRedeliveryPolicy(policy);
    }

    private static Object commit(Connection connection, String name) throws JMSException {
        Session sending = transacted(connection);
        Session reading = Probe.auto(connection);
        MessageConsumer consumer = reading.createConsumer(reading.createQueue(name));
        Probe.send(sending, sending.createQueue(name), "1", "2", "3");
        String before = Probe.delivery(consumer.receive(Probe.SHORT));
        sending.commit();
        List<String> after = Probe.deliveries(consumer, 3);
        consumer.close();

        Probe.send(sending, sending.createQueue(name), "4", "5");
        sending.commit();
        MessageConsumer committed = sending.createConsumer(sending.createQueue(name));
        List<String> taken = Probe.deliveries(committed, 2);
        sending.commit();
        sending.close();
        return Probe.map("before", before, "after", after, "taken", taken, "left", Probe.left(connection, name));
    }

    /** The default policy but for its delays: the first delivery and six more, then the dead letter queue. */
    private static Object rollback(Connection connection, String name) throws JMSException {
        quickRedelivery(connection);
        Session plain = Probe.auto(connection);
        Queue queue = plain.createQueue(name);
        Message message = plain.createTextMessage("bad");
        message.setJMSCorrelationID(name);
        plain.createProducer(queue).send(message);
        Session session = transacted(connection);
        MessageConsumer consumer = session.createConsumer(queue);
        List<String> deliveries = new ArrayList<>();
        for (Message m = consumer.receive(Probe.PATIENCE); m != null; m = consumer.receive(Probe.SHORT)) {
            deliveries.add(Probe.delivery(m));
            session.rollback();
        }
        session.close();
        return Probe.map("deliveries", deliveries, "dead", Probe.dead(connection, name),
                "left", Probe.left(connection, name));
    }

    private static Object sendRollback(Connection connection, String name) throws JMSException {
        Session session = transacted(connection);
        Probe.send(session, session.createQueue(name), "never");
        session.rollback();
        Probe.send(session, session.createQueue(name), "once");
        session.commit();
        return Probe.left(connection, name);
    }

    private static Object closeInTransaction(Connection connection, String name) throws JMSException {
        Session session = transacted(connection);
        Probe.send(session, session.createQueue(name), "1", "2");
        session.commit();
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        List<String> first = Probe.deliveries(consumer, 1);
        session.close();
        return Probe.map("first", first, "left", Probe.left(connection, name));
    }

    private static Object clientAck(Connection connection, String name) throws JMSException {
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        Probe.send(session, queue, "1", "2", "3", "4");
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.receive(Probe.PATIENCE);
        Message second = consumer.receive(Probe.PATIENCE);
        second.acknowledge();
        List<String> third = Probe.deliveries(consumer, 1);
        session.close();
        return Probe.map("third", third, "left", Probe.left(connection, name));
    }

    private static Object recover(Connection connection, String name) throws JMSException {
        quickRedelivery(connection);
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        Probe.send(session, queue, "1", "2", "3");
        MessageConsumer consumer = session.createConsumer(queue);
        List<String> first = Probe.deliveries(consumer, 2);
        session.recover();
        List<String> again = Probe.deliveries(consumer, 3);
        session.close();
        return Probe.map("first", first, "again", again);
    }

    private static Object individualAck(Connection connection, String name) throws JMSException {
        Session session = connection.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        Queue queue = session.createQueue(name);
        Probe.send(session, queue, "1", "2", "3");
        MessageConsumer consumer = session.createConsumer(queue);
        consumer.receive(Probe.PATIENCE);
        consumer.receive(Probe.PATIENCE).acknowledge();
        consumer.receive(Probe.PATIENCE);
        session.close();
        return Probe.left(connection, name);
    }

    private static Object dupsOk(Connection connection, String name) throws JMSException {
        Session session = connection.createSession(false, Session.DUPS_OK_ACKNOWLEDGE);
        MessageConsumer queue = session.createConsumer(session.createQueue(name));
        MessageConsumer topic = session.createConsumer(session.createTopic(name + "?consumer.prefetchSize=4"));
        String[] texts = new String[20];
        Arrays.setAll(texts, Integer::toString);
        Probe.send(session, session.createQueue(name), texts);
        Probe.send(session, session.createTopic(name), texts);
        int fromQueue = Probe.deliveries(queue, 20).indexOf("19#1");
        int fromTopic = Probe.deliveries(topic, 20).indexOf("19#1");
        session.close();
        return Probe.map("queue", fromQueue, "topic", fromTopic, "left", Probe.left(connection, name));
    }

    private static Object listenerThrows(Connection connection, String name) throws Exception {
        quickRedelivery(connection);
        Session session = Probe.auto(connection);
        Message message = session.createTextMessage("bad");
        message.setJMSCorrelationID(name);
        session.createProducer(session.createQueue(name)).send(message);
        List<String> deliveries = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch seven = new CountDownLatch(7);
        Session listening = Probe.auto(connection);
        listening.createConsumer(listening.createQueue(name)).setMessageListener(m -> {
            try {
                deliveries.add(Probe.delivery(m));
            } catch (JMSException error) {
                deliveries.add(error.toString());
            }
            seven.countDown();
            throw new IllegalArgumentException("boom");
        });
        seven.await(Probe.PATIENCE, TimeUnit.MILLISECONDS);
        return Probe.map("deliveries", deliveries, "dead", Probe.dead(connection, name));
    }

    private static Object pull(Connection connection, String name) throws JMSException {
        Session session = Probe.auto(connection);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name + "?consumer.prefetchSize=0"));
        List<String> found = new ArrayList<>();
        found.add(Probe.text(consumer.receiveNoWait()));
        found.add(Probe.text(consumer.receive(50)));
        Probe.send(session, session.createQueue(name), "1", "2", "3");
        found.add(Probe.text(consumer.receiveNoWait()));
        found.add(Probe.text(consumer.receive(Probe.PATIENCE)));
        MessageConsumer other = session.createConsumer(session.createQueue(name));
        found.add(Probe.text(other.receive(Probe.PATIENCE)));
        new Thread(() -> {
            try {
                Session sending = Probe.auto(connection);
                Probe.send(sending, sending.createQueue(name + "-late"), "late");
            } catch (JMSException error) {
                error.printStackTrace();
            }
        }).start();
        found.add(Probe.text(session.createConsumer(session.createQueue(name + "-late?consumer.prefetchSize=0")).receive()));
        return found;
    }

    /** With a prefetch of one a consumer that keeps its message is passed over; DELIVERED acks widen windows. */
    private static Object prefetchOne(Connection connection, String name) throws JMSException {
        Session first = connection.createSession(false, ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE);
        Session second = Probe.auto(connection);
        MessageConsumer slow = first.createConsumer(first.createQueue(name + "?consumer.prefetchSize=1"));
        Probe.send(first, first.createQueue(name), "1", "2", "3", "4");
        MessageConsumer quick = second.createConsumer(second.createQueue(name + "?consumer.prefetchSize=1"));
        List<String> found = new ArrayList<>(Probe.deliveries(quick, 3));
        Message kept = slow.receive(Probe.PATIENCE);
        kept.acknowledge();
        found.add(Probe.delivery(kept));
        return found;
    }

    private static Object bulk(Connection connection, String name, int count) throws Exception {
        Session session = Probe.auto(connection);
        Session listening = Probe.auto(connection);
        List<String> texts = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(count);
        listening.createConsumer(listening.createQueue(name)).setMessageListener(m -> {
            try {
                texts.add(Probe.text(m));
            } catch (JMSException error) {
                texts.add(error.toString());
            }
            all.countDown();
        });
        MessageProducer producer = session.createProducer(session.createQueue(name));
        producer.setDeliveryMode(DeliveryMode.NON_PERSISTENT);
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            producer.send(session.createTextMessage(Integer.toString(i)));
        }
        boolean complete = all.await(30, TimeUnit.SECONDS);
        long rate = count * 1_000_000_000L / (System.nanoTime() - start);
        boolean ordered = complete;
        for (int i = 0; ordered && i < count; i++) {
            ordered = texts.get(i).equals(Integer.toString(i));
        }
        return Probe.map("received", texts.size(), "ordered", ordered, "rate", rate);
    }

    /** Receives one message of those prefetched, says so and keeps it until the process is killed. */
    private static Object hold(String url, String name) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        Probe.say(Probe.delivery(consumer.receive(Probe.PATIENCE)));
        Thread.sleep(Long.MAX_VALUE);
        return null;
    }

    private Sessions() {
    }
}
