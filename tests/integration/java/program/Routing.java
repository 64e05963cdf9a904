import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.Topic;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.advisory.ConsumerEventSource;
import org.apache.activemq.command.ActiveMQDestination;

/** Who gets which message: topics, selectors, virtual topics, temporary destinations, browsers, durables. */
final class Routing {
    static void register(Map<String, Probe.Scenario> scenarios) {
        scenarios.put("request-reply", (url, a) -> Probe.connected(url, c -> requestReply(c, a.get(0))));
        scenarios.put("serve-replies", (url, a) -> Probe.connected(url, c -> serveReplies(c, a.get(0), 1)));
        scenarios.put("ask", (url, a) -> Probe.connected(url, c -> ask(c, a.get(0), a.get(1))));
        scenarios.put("deleted-temporary", (url, a) -> deletedTemporary(url));
        scenarios.put("virtual-topic", (url, a) -> Probe.connected(url, c -> virtualTopic(c, a.get(0))));
        scenarios.put("selectors", (url, a) -> Probe.connected(url, c -> selectors(c, a.get(0))));
        scenarios.put("bad-selector", (url, a) -> Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            return session.createConsumer(session.createQueue(a.get(0)), a.get(1));
        }));
        scenarios.put("browse", (url, a) -> Probe.connected(url, c -> browse(c, a.get(0))));
        scenarios.put("durable", (url, a) -> durable(url, a.get(0)));
        scenarios.put("durable-errors", (url, a) -> durableErrors(url, a.get(0)));
        scenarios.put("same-client-id", (url, a) -> sameClientId(url, a.get(0)));
        scenarios.put("priorities", (url, a) -> Probe.connected(url, c -> priorities(c, a.get(0))));
        scenarios.put("expiry", (url, a) -> Probe.connected(url, c -> expiry(c, a.get(0))));
        scenarios.put("no-local", (url, a) -> Probe.connected(url, c -> noLocal(url, c, a.get(0))));
        scenarios.put("composite", (url, a) -> Probe.connected(url, c -> composite(c, a.get(0))));
        scenarios.put("wildcards", (url, a) -> Probe.connected(url, c -> wildcards(c, a.get(0))));
        scenarios.put("groups", (url, a) -> Probe.connected(url, c -> groups(c, a.get(0))));
        scenarios.put("exclusive", (url, a) -> Probe.connected(url, c -> exclusive(c, a.get(0))));
        scenarios.put("advisories", (url, a) -> Probe.connected(url, c -> advisories((ActiveMQConnection) c, a.get(0))));
    }

    private static MessageConsumer consumer(Session session, String queue) throws JMSException {
        return session.createConsumer(session.createQueue(queue));
    }

    private static List<String> texts(MessageConsumer consumer, int count) throws JMSException {
        List<String> found = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            found.add(Probe.text(consumer.receive(Probe.PATIENCE)));
        }
        return found;
    }

    private static Object requestReply(Connection connection, String queue) throws Exception {
        Connection serving = connection;
        Thread server = new Thread(() -> {
            try {
                serveReplies(serving, queue, 3);
            } catch (JMSException error) {
                error.printStackTrace();
            }
        });
        server.start();
        List<Object> replies = Arrays.asList(
                ask(connection, queue, "1"), ask(connection, queue, "2"), ask(connection, queue, "3"));
        server.join();
        return replies;
    }

    private static Object serveReplies(Connection connection, String queue, int count) throws JMSException {
        Session session = Probe.auto(connection);
        MessageConsumer requests = consumer(session, queue);
        MessageProducer replies = session.createProducer(null);
        List<String> served = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message request = requests.receive(Probe.PATIENCE);
            Message reply = session.createTextMessage("re: " + Probe.text(request));
            reply.setJMSCorrelationID(request.getJMSMessageID());
            replies.send(request.getJMSReplyTo(), reply);
            served.add(Probe.text(request));
        }
        session.close();
        return served;
    }

    private static Object ask(Connection connection, String queue, String text) throws JMSException {
        Session session = Probe.auto(connection);
        TemporaryQueue temporary = session.createTemporaryQueue();
        MessageConsumer replies = session.createConsumer(temporary);
        Message request = session.createTextMessage(text);
        request.setJMSReplyTo(temporary);
        session.createProducer(session.createQueue(queue)).send(request);
        Message reply = replies.receive(Probe.PATIENCE);
        boolean correlated = request.getJMSMessageID().equals(reply.getJMSCorrelationID());
        replies.close();
        temporary.delete();
        session.close();
        return Arrays.asList(Probe.text(reply), correlated);
    }

    /** Another connection learns from the advisories that a temporary queue came and went. */
    private static Object deletedTemporary(String url) throws Exception {
        return Probe.connected(url, owner -> Probe.connected(url, other -> {
            TemporaryQueue temporary = Probe.auto(owner).createTemporaryQueue();
            Session session = Probe.auto(other);
            List<String> results = new ArrayList<>();
            awaitDeleted(other, temporary, false);
            Probe.send(session, temporary, "there");
            results.add(Probe.text(Probe.auto(owner).createConsumer(temporary).receive(Probe.PATIENCE)));
            try {
                session.createConsumer(temporary);
                results.add("consumed");
            } catch (JMSException error) {
                results.add(error.getClass().getSimpleName() + ": " + error.getMessage());
            }
            String name = temporary.getQueueName();
            owner.close();
            awaitDeleted(other, temporary, true);
            try {
                Probe.send(session, temporary, "gone");
                results.add("sent");
            } catch (JMSException error) {
                results.add(error.getClass().getSimpleName() + ": " + error.getMessage().replace(name, "NAME"));
            }
            return results;
        }));
    }

    private static void awaitDeleted(Connection connection, TemporaryQueue temporary, boolean deleted) {
        long end = System.currentTimeMillis() + Probe.PATIENCE;
        ActiveMQConnection hearing = (ActiveMQConnection) connection;
        while (hearing.isDeleted((ActiveMQDestination) temporary) != deleted && System.currentTimeMillis() < end) {
            Thread.onSpinWait();
        }
    }

    private static Object virtualTopic(Connection connection, String name) throws JMSException {
        Session session = Probe.auto(connection);
        MessageConsumer a = consumer(session, "Consumer.A.VirtualTopic." + name);
        MessageConsumer b = consumer(session, "Consumer.B.VirtualTopic." + name);
        Topic topic = session.createTopic("VirtualTopic." + name);
        MessageConsumer plain = session.createConsumer(topic);
        Probe.send(session, topic, "1", "2");
        Message first = a.receive(Probe.PATIENCE);
        return Probe.map("first", Messages.describe(first), "a", texts(a, 1), "b", texts(b, 2), "plain", texts(plain, 2));
    }

    private static Object selectors(Connection connection, String name) throws JMSException {
        Session session = Probe.auto(connection);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 10; i++) {
            Message message = session.createTextMessage(Integer.toString(i));
            message.setIntProperty("number", i);
            message.setStringProperty("colour", i % 2 == 0 ? "red" : "blue");
            message.setJMSType(i == 9 ? "last" : null);
            producer.send(message);
        }
        List<Object> found = new ArrayList<>();
        found.add(texts(session.createConsumer(queue, "number BETWEEN 2 AND 4 AND colour = 'red'"), 2));
        found.add(texts(session.createConsumer(queue, "JMSType = 'last' AND number * 2 > 17.5"), 1));
        found.add(texts(session.createConsumer(queue, "colour LIKE 'b_u%' AND number IN ('1')  OR number = 1"), 1));
        found.add(texts(session.createConsumer(queue, "missing IS NULL AND NOT (number < 7)"), 2));
        MessageConsumer none = session.createConsumer(queue, "missing > 1");
        found.add(Probe.text(none.receive(Probe.SHORT)));
        none.close();
        session.close();
        List<String> rest = Probe.left(connection, name);
        found.add(rest);
        return found;
    }

    private static Object browse(Connection connection, String name) throws JMSException {
        Session session = Probe.auto(connection);
        Queue queue = session.createQueue(name);
        MessageProducer producer = session.createProducer(queue);
        for (int i = 0; i < 5; i++) {
            Message message = session.createTextMessage(Integer.toString(i));
            message.setIntProperty("number", i);
            producer.send(message);
        }
        List<String> all = new ArrayList<>();
        List<String> some = new ArrayList<>();
        for (Object message : Collections.list(session.createBrowser(queue).getEnumeration())) {
            all.add(Probe.text((Message) message));
        }
        for (Object message : Collections.list(session.createBrowser(queue, "number > 2").getEnumeration())) {
            some.add(Probe.text((Message) message));
        }
        return Probe.map("all", all, "some", some, "left", Probe.left(connection, name));
    }

    private static Connection withId(String url, String clientId) throws JMSException {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        connection.setClientID(clientId);
        connection.start();
        return connection;
    }

    private static Object durable(String url, String name) throws JMSException {
        Connection connection = withId(url, name);
        Session session = Probe.auto(connection);
        Topic topic = session.createTopic(name);
        MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub");
        Probe.send(session, topic, "live");
        List<String> live = texts(subscriber, 1);
        subscriber.close();
        Probe.send(session, topic, "closed");
        connection.close();

        Connection other = withId(url, name + "-other");
        Session sending = Probe.auto(other);
        MessageProducer producer = sending.createProducer(topic);
        producer.send(sending.createTextMessage("offline"));
        producer.send(sending.createTextMessage("non-persistent"), DeliveryMode.NON_PERSISTENT, 4, 0);
        other.close();

        connection = withId(url, name);
        session = Probe.auto(connection);
        subscriber = session.createDurableSubscriber(topic, "sub");
        List<String> caughtUp = texts(subscriber, 3);
        subscriber.close();
        subscriber = session.createDurableSubscriber(topic, "sub", "number = 1", false);
        Message matching = session.createTextMessage("matching");
        matching.setIntProperty("number", 1);
        Probe.send(session, topic, "other");
        session.createProducer(topic).send(matching);
        List<String> selected = texts(subscriber, 1);
        subscriber.close();
        session.unsubscribe("sub");
        Probe.send(session, topic, "nobody hears");
        subscriber = session.createDurableSubscriber(topic, "sub");
        String nothing = Probe.text(subscriber.receive(Probe.SHORT));
        subscriber.close();
        session.unsubscribe("sub");
        connection.close();
        return Arrays.asList(live, caughtUp, selected, nothing);
    }

    private interface Step {
        void run() throws JMSException;
    }

    private static String failure(Step step) {
        try {
            step.run();
            return null;
        } catch (JMSException error) {
            return error.getClass().getSimpleName() + ": " + error.getMessage();
        }
    }

    private static Object durableErrors(String url, String name) throws JMSException {
        Connection connection = withId(url, name);
        Session session = Probe.auto(connection);
        Topic topic = session.createTopic(name);
        MessageConsumer subscriber = session.createDurableSubscriber(topic, "sub");
        List<String> failures = Arrays.asList(
                failure(() -> session.createDurableSubscriber(topic, "sub")),
                failure(() -> session.unsubscribe("sub")),
                failure(() -> session.unsubscribe("unknown")));
        subscriber.close();
        session.unsubscribe("sub");
        connection.close();
        return failures;
    }

    private static Object sameClientId(String url, String clientId) throws JMSException {
        Connection first = withId(url, clientId);
        try {
            return failure(() -> withId(url, clientId));
        } finally {
            first.close();
        }
    }

    private static Object priorities(Connection connection, String name) throws JMSException {
        Session session = Probe.auto(connection);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        for (int priority : new int[] {1, 9, 4, 0}) {
            producer.send(session.createTextMessage("p" + priority), DeliveryMode.PERSISTENT, priority, 0);
        }
        return texts(consumer(session, name), 4);
    }

    private static Object expiry(Connection connection, String name) throws Exception {
        Session session = Probe.auto(connection);
        MessageProducer producer = session.createProducer(session.createQueue(name));
        Message shortLived = session.createTextMessage("short");
        shortLived.setJMSCorrelationID(name);
        producer.send(shortLived, DeliveryMode.PERSISTENT, 4, 40);
        producer.send(session.createTextMessage("long"), DeliveryMode.PERSISTENT, 4, 600000);
        while (System.currentTimeMillis() <= shortLived.getJMSExpiration()) {
            Thread.sleep(5);
        }
        String found = Probe.text(consumer(session, name).receive(Probe.PATIENCE));
        return Probe.map("found", found, "dead", Probe.dead(connection, name));
    }

    private static Object noLocal(String url, Connection connection, String name) throws Exception {
        Session session = Probe.auto(connection);
        Topic topic = session.createTopic(name);
        MessageConsumer consumer = session.createConsumer(topic, null, true);
        Probe.send(session, topic, "mine");
        Probe.connected(url, other -> {
            Session sending = Probe.auto(other);
            Probe.send(sending, sending.createTopic(name), "theirs");
            return null;
        });
        return texts(consumer, 1);
    }

    private static Object composite(Connection connection, String name) throws JMSException {
        Session session = Probe.auto(connection);
        MessageConsumer topic = session.createConsumer(session.createTopic(name + ".t"));
        MessageConsumer both = consumer(session, name + ".c," + name + ".d");
        Probe.send(session, session.createQueue(name + ".a," + name + ".b,topic://" + name + ".t"), "x");
        Probe.send(session, session.createQueue(name + ".c"), "c");
        Probe.send(session, session.createQueue(name + ".d"), "d");
        Message fromA = consumer(session, name + ".a").receive(Probe.PATIENCE);
        return Probe.map("a", Messages.describe(fromA), "b", texts(consumer(session, name + ".b"), 1),
                "t", texts(topic, 1), "both", texts(both, 2));
    }

    private static Object wildcards(Connection connection, String name) throws JMSException {
        Session session = Probe.auto(connection);
        MessageConsumer deep = consumer(session, name + ".>");
        MessageConsumer topics = session.createConsumer(session.createTopic(name + ".*"));
        List<String> destinations = new ArrayList<>();
        for (String child : new String[] {"", ".a", ".a.b"}) {
            Probe.send(session, session.createQueue(name + child), name + child);
            destinations.add(deep.receive(Probe.PATIENCE).getJMSDestination().toString());
        }
        Probe.send(session, session.createTopic(name), "no");
        Probe.send(session, session.createTopic(name + ".a.b"), "no");
        Probe.send(session, session.createTopic(name + ".a"), "yes");
        return Probe.map("queues", destinations, "topics", texts(topics, 1));
    }

    /** Each group stays with one consumer; the first message of a group says so. */
    private static Object groups(Connection connection, String name) throws JMSException {
        Session[] sessions = {Probe.auto(connection), Probe.auto(connection)};
        MessageConsumer[] consumers = {consumer(sessions[0], name), consumer(sessions[1], name)};
        MessageProducer producer = sessions[0].createProducer(sessions[0].createQueue(name));
        for (int i = 0; i < 8; i++) {
            Message message = sessions[0].createTextMessage(Integer.toString(i));
            message.setStringProperty("JMSXGroupID", i % 2 == 0 ? "even" : "odd");
            producer.send(message);
        }
        List<Object> found = new ArrayList<>();
        for (MessageConsumer consumer : consumers) {
            List<String> texts = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                Message message = consumer.receive(Probe.PATIENCE);
                texts.add(Probe.text(message) + (message.getBooleanProperty("JMSXGroupFirstForConsumer") ? "!" : ""));
            }
            found.add(texts);
        }
        return found;
    }

    private static Object exclusive(Connection connection, String name) throws JMSException {
        Session session = Probe.auto(connection);
        Session second = Probe.auto(connection);
        MessageConsumer first = consumer(session, name + "?consumer.exclusive=true");
        MessageConsumer waiting = consumer(second, name + "?consumer.exclusive=true");
        Probe.send(session, session.createQueue(name), "1", "2", "3");
        List<String> taken = texts(first, 3);
        first.close();
        Probe.send(session, session.createQueue(name), "4");
        return Arrays.asList(taken, texts(waiting, 1));
    }

    private static Object advisories(ActiveMQConnection connection, String name) throws Exception {
        Session session = Probe.auto(connection);
        Queue queue = session.createQueue(name);
        List<Integer> counts = Collections.synchronizedList(new ArrayList<>());
        ConsumerEventSource events = new ConsumerEventSource(connection, queue);
        events.setConsumerListener(event -> counts.add(event.getConsumerCount()));
        events.start();
        MessageConsumer one = session.createConsumer(queue);
        MessageConsumer two = session.createConsumer(queue);
        one.close();
        two.close();
        long end = System.currentTimeMillis() + Probe.PATIENCE;
        while ((counts.size() < 4 || !names(connection).contains(name)) && System.currentTimeMillis() < end) {
            Thread.sleep(5);
        }
        events.stop();
        return Probe.map("consumers", new ArrayList<>(counts), "known", names(connection).contains(name));
    }

    private static TreeSet<String> names(ActiveMQConnection connection) throws JMSException {
        TreeSet<String> names = new TreeSet<>();
        for (Queue queue : connection.getDestinationSource().getQueues()) {
            names.add(queue.getQueueName());
        }
        return names;
    }

    private Routing() {
    }
}
