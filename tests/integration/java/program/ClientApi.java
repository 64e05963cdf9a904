import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.ConnectionConsumer;
import javax.jms.JMSException;
import javax.jms.Queue;
import javax.jms.QueueConnection;
import javax.jms.QueueSender;
import javax.jms.QueueSession;
import javax.jms.ServerSession;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TopicConnection;
import javax.jms.TopicPublisher;
import javax.jms.TopicSession;
import javax.jms.TopicSubscriber;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQSession;
import org.apache.activemq.BlobMessage;

/** Parts of the API that few use: blob messages, the API of one domain, connection consumers. */
final class ClientApi {
    static void register(Map<String, Probe.Scenario> scenarios) {
        scenarios.put("send-blob", (url, a) -> Probe.connected(url, c -> sendBlob(c, a.get(0), a.get(1))));
        scenarios.put("receive-blob", (url, a) -> Probe.connected(url, c -> receiveBlob(c, a.get(0))));
        scenarios.put("domains", (url, a) -> domains(url, a.get(0)));
        scenarios.put("connection-consumer", (url, a) -> Probe.connected(url,
                c -> connectionConsumer(c, a.get(0), Integer.parseInt(a.get(1)), Integer.parseInt(a.get(2)))));
    }

    private static Object sendBlob(Connection connection, String name, String text) throws Exception {
        ActiveMQSession session = (ActiveMQSession) Probe.auto(connection);
        File file = File.createTempFile("body", ".bin");
        Files.write(file.toPath(), text.getBytes(StandardCharsets.UTF_8));
        BlobMessage message = session.createBlobMessage(file);
        message.setStringProperty("kind", "blob");
        session.createProducer(session.createQueue(name)).send(message);
        file.delete();
        return null; // the URL is that of the copy that was sent
    }

    private static Object receiveBlob(Connection connection, String name) throws Exception {
        Session session = Probe.auto(connection);
        BlobMessage message = (BlobMessage) session.createConsumer(session.createQueue(name)).receive(Probe.PATIENCE);
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        try (InputStream stream = message.getInputStream()) {
            byte[] some = new byte[512];
            for (int n = stream.read(some); n >= 0; n = stream.read(some)) {
                body.write(some, 0, n);
            }
        }
        return Arrays.asList(message.getURL().toString(), message.getMimeType(),
                ((org.apache.activemq.command.ActiveMQBlobMessage) message).isDeletedByBroker(), message.getStringProperty("kind"),
                new String(body.toByteArray(), StandardCharsets.UTF_8));
    }

    private interface Call {
        Object run() throws JMSException;
    }

    /** What a call returns, or the class of what it throws. */
    private static String outcome(Call call) {
        try {
            return String.valueOf(call.run());
        } catch (JMSException error) {
            return error.getClass().getSimpleName();
        }
    }

    private static Object domains(String url, String name) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        List<String> found = new ArrayList<>();
        QueueConnection queues = factory.createQueueConnection();
        TopicConnection topics = factory.createTopicConnection();
        try {
            queues.start();
            topics.start();
            QueueSession session = queues.createQueueSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue(name);
            Topic topic = new org.apache.activemq.command.ActiveMQTopic(name);
            QueueSender sender = session.createSender(queue);
            sender.send(session.createTextMessage("q"));
            found.add(Probe.text(session.createReceiver(queue).receive(Probe.PATIENCE)));
            found.add(outcome(() -> session.createTopic(name)));
            found.add(outcome(session::createTemporaryTopic));
            found.add(outcome(() -> session.createDurableSubscriber(topic, "s")));
            found.add(outcome(() -> session.createProducer(topic)));
            found.add(outcome(() -> session.createConsumer(topic)));
            found.add(outcome(() -> {
                session.unsubscribe("s");
                return null;
            }));

            TopicSession other = topics.createTopicSession(false, Session.AUTO_ACKNOWLEDGE);
            TopicSubscriber subscriber = other.createSubscriber(topic);
            TopicSubscriber others = other.createSubscriber(topic, null, true);
            TopicPublisher publisher = other.createPublisher(topic);
            publisher.publish(other.createTextMessage("t"));
            found.add(Probe.text(subscriber.receive(Probe.PATIENCE)));
            found.add(Probe.text(others.receive(Probe.SHORT)));
            found.add(String.valueOf(others.getNoLocal()));
            found.add(outcome(() -> other.createQueue(name)));
            found.add(outcome(other::createTemporaryQueue));
            found.add(outcome(() -> other.createBrowser(queue)));
            found.add(outcome(() -> other.createProducer(queue)));
            found.add(outcome(() -> other.createConsumer(queue)));
        } finally {
            queues.close();
            topics.close();
        }
        return found;
    }

    /** A pool of two sessions, as an application server has: what each of their runs got. */
    private static Object connectionConsumer(Connection connection, String name, int count, int most) throws Exception {
        BlockingQueue<ServerSession> idle = new LinkedBlockingQueue<>();
        List<Integer> runs = Collections.synchronizedList(new ArrayList<>());
        List<String> texts = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(count);
        for (int i = 0; i < 2; i++) {
            Session session = Probe.auto(connection);
            int[] inThisRun = new int[1];
            session.setMessageListener(message -> {
                inThisRun[0]++;
                try {
                    texts.add(((TextMessage) message).getText());
                } catch (JMSException error) {
                    texts.add(error.toString());
                }
                all.countDown();
            });
            idle.add(new ServerSession() {
                public Session getSession() {
                    return session;
                }

                public void start() {
                    new Thread(() -> {
                        inThisRun[0] = 0;
                        session.run();
                        runs.add(inThisRun[0]);
                        idle.add(this);
                    }).start();
                }
            });
        }
        Session sending = Probe.auto(connection);
        Queue queue = sending.createQueue(name);
        String[] numbers = new String[count];
        for (int i = 0; i < count; i++) {
            numbers[i] = String.valueOf(i);
        }
        Probe.send(sending, queue, numbers);
        ConnectionConsumer consumer = connection.createConnectionConsumer(queue, null, () -> {
            try {
                return idle.take();
            } catch (InterruptedException error) {
                throw new JMSException(error.toString());
            }
        }, most);
        all.await(Probe.PATIENCE, TimeUnit.MILLISECONDS);
        List<ServerSession> ended = new ArrayList<>();
        for (int i = 0; i < 2; i++) { // both runs have returned
            ended.add(idle.poll(Probe.PATIENCE, TimeUnit.MILLISECONDS));
        }
        idle.addAll(ended);
        consumer.close();
        Collections.sort(texts);
        return Probe.map("texts", texts, "largest", Collections.max(runs), "left", Probe.left(connection, name));
    }
}
