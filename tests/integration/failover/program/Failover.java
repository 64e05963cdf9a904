import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.Topic;
import javax.jms.TransactionRolledBackException;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Clients that live through restarts of their broker: "Failover URL COUNT". Five of them, each with a connection of
 * its own, send and receive COUNT messages while the broker comes and goes; "sent N" says how far the first one is.
 * The last line is what each has received, and how often a commit was rolled back, as JSON.
 */
public final class Failover {
    private static final int BATCH = 5;
    private static final long PAUSE = 10;
    private static final long PATIENCE = 60_000;
    private static final List<Integer> IN_DOUBT = new ArrayList<>();
    private static final AtomicInteger ROLLED_BACK = new AtomicInteger();

    interface Work {
        Object with(Session session) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String url = arguments[0];
        int count = Integer.parseInt(arguments[1]);
        Connection durable = connect(url, "durable");
        Session subscriber = durable.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        Topic topic = subscriber.createTopic("failover.topic");
        MessageConsumer subscription = subscriber.createDurableSubscriber(topic, "all");
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<Object>> ends = new ArrayList<>();
        ends.add(threads.submit(inSession(url, "sender", false, session -> send(session, count))));
        ends.add(threads.submit(inSession(url, "committer", true, session -> sendInBatches(session, count))));
        ends.add(threads.submit(inSession(url, "receiver", false, session -> receive(session, count))));
        ends.add(threads.submit(inSession(url, "batch-receiver", true, session -> receiveInBatches(session, count))));
        ends.add(threads.submit(inSession(url, "publisher", false, session -> publish(session, count))));
        ends.add(threads.submit(() -> collect(subscription, count)));
        List<Object> found = new ArrayList<>();
        for (Future<Object> end : ends) {
            found.add(end.get(PATIENCE, TimeUnit.MILLISECONDS));
        }
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("\"plain\"", found.get(2));
        answer.put("\"batches\"", found.get(3));
        answer.put("\"in doubt\"", IN_DOUBT);
        answer.put("\"durable\"", found.get(5));
        answer.put("\"rolled back\"", ROLLED_BACK.get());
        System.out.println(answer.toString().replace("\"=", "\": "));
        durable.close();
        threads.shutdown();
    }

    private static Connection connect(String url, String name) throws JMSException {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.setClientID(name);
        connection.start();
        return connection;
    }

    private static Callable<Object> inSession(String url, String name, boolean transacted, Work work) {
        return () -> {
            Connection connection = connect(url, name);
            try {
                return work.with(connection.createSession(transacted, Session.AUTO_ACKNOWLEDGE));
            } finally {
                connection.close();
            }
        };
    }

    private static Object send(Session session, int count) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue("failover.plain"));
        for (int number = 1; number <= count; number++) {
            producer.send(numbered(session, number));
            if (number % 10 == 0) {
                System.out.println("sent " + number);
            }
            Thread.sleep(PAUSE);
        }
        return null;
    }

    private static Object publish(Session session, int count) throws Exception {
        MessageProducer producer = session.createProducer(session.createTopic("failover.topic"));
        for (int number = 1; number <= count; number++) {
            producer.send(numbered(session, number));
            Thread.sleep(PAUSE);
        }
        return null;
    }

    /** A commit that was rolled back is tried again, as an application does. */
    private static Object sendInBatches(Session session, int count) throws Exception {
        MessageProducer producer = session.createProducer(session.createQueue("failover.batches"));
        int number = 0;
        while (number < count) {
            try {
                for (int i = 1; i <= BATCH; i++) {
                    producer.send(numbered(session, number + i));
                    Thread.sleep(PAUSE);
                }
                session.commit();
                number += BATCH;
            } catch (TransactionRolledBackException error) {
                ROLLED_BACK.incrementAndGet();
            }
        }
        return null;
    }

    private static Object receive(Session session, int count) throws Exception {
        Queue queue = session.createQueue("failover.plain");
        return collect(session.createConsumer(queue), count);
    }

    private static Object collect(MessageConsumer consumer, int count) throws Exception {
        List<Integer> received = new ArrayList<>();
        while (new TreeSet<>(received).size() < count) {
            Message message = consumer.receive(PATIENCE);
            if (message == null) {
                break;
            }
            received.add(message.getIntProperty("number"));
            message.acknowledge();
        }
        return received;
    }

    /** A commit whose answer the restart swallowed may have happened: its messages need not come again. */
    private static Object receiveInBatches(Session session, int count) throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createQueue("failover.batches"));
        List<Integer> received = new ArrayList<>();
        while (Stream.concat(received.stream(), IN_DOUBT.stream()).distinct().count() < count) {
            List<Integer> batch = new ArrayList<>();
            while (batch.size() < BATCH) {
                Message message = consumer.receive(PATIENCE);
                if (message == null) {
                    throw new IllegalStateException("nothing comes any more, after " + received + " and " + batch);
                }
                batch.add(message.getIntProperty("number"));
            }
            IN_DOUBT.removeAll(batch);
            try {
                session.commit();
                received.addAll(batch);
            } catch (TransactionRolledBackException error) {
                ROLLED_BACK.incrementAndGet();
                IN_DOUBT.addAll(batch);
            }
        }
        return received;
    }

    private static Message numbered(Session session, int number) throws JMSException {
        Message message = session.createTextMessage("message " + number);
        message.setIntProperty("number", number);
        return message;
    }
}
