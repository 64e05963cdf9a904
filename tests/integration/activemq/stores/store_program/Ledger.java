import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.Destination;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import javax.jms.Topic;
import javax.jms.TopicSubscriber;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;

/**
 * Fills a broker and takes everything out again, as lines of JSON: each place with what is, or should be, in it.
 * Arguments: TASK URL SALT EACH, with some EACH messages in each queue. fill: what must be there when the
 * broker has been restarted. drain: what is there.
 */
public final class Ledger {
    static final int QUEUES = 20;
    static final String[] KINDS = {"message", "text", "bytes", "map", "stream", "object"};
    static final String WORDS = "gr\u00fc\u00df dich \ud83d\ude00 \u0000 \u20ac";
    /** ActiveMQ itself spoils rarer characters in maps and properties once a selector has looked at them. */
    static final String PLAIN = "gr\u00fc\u00df \u20ac";
    static final long PATIENCE = 60000;
    static final long NOTHING_MORE = 3000;
    static final long FIRST = 20000;  // where messages are expected: a broker may be busy at first

    private final String url;
    private final String salt;
    private final int each;
    private final Map<String, List<String>> places = new TreeMap<>();
    private int made;

    private Ledger(String url, String salt, int each) {
        this.url = url;
        this.salt = salt;
        this.each = each;
    }

    public static void main(String[] arguments) {
        System.setProperty("org.apache.activemq.SERIALIZABLE_PACKAGES", "java.util,java.lang");
        Ledger ledger = new Ledger(arguments[1], arguments[2], Integer.parseInt(arguments[3]));
        try {
            if (arguments[0].equals("fill")) {
                ledger.fill();
            } else {
                ledger.drain();
            }
            System.out.println(new ObjectMapper().writeValueAsString(ledger.places));
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
    }

    private void fill() throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        subscribe(factory);
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connection.start();
        for (int i = 0; i < QUEUES; i++) {
            queue(connection, "ledger." + salt + i, i);
        }
        topic(connection);
        connection.close();
        consumeTopic(factory);
        prepared();
        ActiveMQConnection open = (ActiveMQConnection) factory.createConnection();
        open.start();
        Session unfinished = open.createSession(true, Session.SESSION_TRANSACTED);
        send(unfinished, unfinished.createQueue("ledger." + salt + "0"), 10);
        Message taken = unfinished.createConsumer(unfinished.createQueue("ledger." + salt + "1")).receive(PATIENCE);
        if (taken == null) {
            throw new IllegalStateException("nothing in ledger 1");
        }
        unfinished.rollback();
        open.close();
    }

    /** Some are sent one by one, some in transactions, some rolled back; some are taken out again. */
    private void queue(ActiveMQConnection connection, String name, int number) throws Exception {
        connection.setUseCompression(number % 5 == 4);
        Session auto = connection.createSession(false, ActiveMQSessionModes.INDIVIDUAL);
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        List<String> there = new ArrayList<>();
        there.addAll(send(auto, auto.createQueue(name), each / 4));
        for (int batch = 0; batch < 4; batch++) {
            List<String> sent = send(transacted, transacted.createQueue(name), each * 3 / 16);
            if (batch == 2) {
                transacted.rollback();
            } else {
                transacted.commit();
                there.addAll(sent);
            }
        }
        if (number % 2 == 0) {
            take(auto, name, there, number % 4 == 0 ? each / 10 : each / 2);
            takeTransacted(transacted, name, there);
        }
        auto.close();
        transacted.close();
        places.put("queue://" + name, there);
    }

    /** Every third message is acknowledged by itself; the others come back. */
    private void take(Session session, String name, List<String> there, int count) throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        for (int i = 0; i < count; i++) {
            Message message = consumer.receive(PATIENCE);
            if (i % 3 == 0) {
                message.acknowledge();
                there.remove(describe(message));
            }
        }
        consumer.close();
    }

    private void takeTransacted(Session session, String name, List<String> there) throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createQueue(name));
        for (int i = 0; i < 20; i++) {
            there.remove(describe(consumer.receive(PATIENCE)));
        }
        session.commit();
        for (int i = 0; i < 5; i++) {
            consumer.receive(PATIENCE);
        }
        session.rollback();
        consumer.close();
    }

    private void subscribe(ActiveMQConnectionFactory factory) throws Exception {
        Connection connection = factory.createConnection();
        connection.setClientID("ledger" + salt);
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        session.createDurableSubscriber(session.createTopic("ledger.topic" + salt), "all").close();
        session.createDurableSubscriber(session.createTopic("ledger.topic" + salt), "even", "number % 2 = 0", true).close();
        session.createDurableSubscriber(session.createTopic("ledger.topic" + salt), "some").close();
        session.createDurableSubscriber(session.createTopic("ledger.topic" + salt), "gone").close();
        session.unsubscribe("gone");
        connection.close();
    }

    private void topic(Connection connection) throws Exception {
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        int before = made;
        List<String> sent = send(session, session.createTopic("ledger.topic" + salt), 5 * each);
        List<String> even = new ArrayList<>();
        for (int i = 0; i < sent.size(); i++) {
            if ((before + i) % 2 == 0) {
                even.add(sent.get(i));
            }
        }
        places.put("all", new ArrayList<>(sent));
        places.put("even", even);
        places.put("some", new ArrayList<>(sent));
        session.close();
    }

    private void consumeTopic(ActiveMQConnectionFactory factory) throws Exception {
        Connection connection = factory.createConnection();
        connection.setClientID("ledger" + salt);
        connection.start();
        Session session = connection.createSession(true, Session.SESSION_TRANSACTED);
        TopicSubscriber subscriber = session.createDurableSubscriber(session.createTopic("ledger.topic" + salt), "some");
        for (int i = 0; i < each * 7 / 4; i++) {
            places.get("some").remove(describe(subscriber.receive(PATIENCE)));
        }
        session.commit();
        subscriber.receive(PATIENCE);
        session.rollback();
        connection.close();
    }

    /** One branch that will be committed and one that will be rolled back; each sends and receives. */
    private void prepared() throws Exception {
        for (String fate : new String[] {"commit", "rollback"}) {
            XAConnection connection = new ActiveMQXAConnectionFactory(url).createXAConnection();
            connection.start();
            XASession session = connection.createXASession();
            XAResource resource = session.getXAResource();
            Xid xid = new Branch(fate + salt);
            resource.start(xid, XAResource.TMNOFLAGS);
            String source = "ledger." + salt + (fate.equals("commit") ? 3 : 5);
            List<String> sent = send(session, session.createQueue("ledger.xa." + fate + salt), 50);
            MessageConsumer consumer = session.createConsumer(session.createQueue(source));
            List<String> taken = new ArrayList<>();
            for (int i = 0; i < 5; i++) {
                taken.add(describe(consumer.receive(PATIENCE)));
            }
            resource.end(xid, XAResource.TMSUCCESS);
            if (resource.prepare(xid) != XAResource.XA_OK) {
                throw new IllegalStateException("not prepared");
            }
            if (fate.equals("commit")) {
                places.put("queue://ledger.xa.commit" + salt, sent);
                places.get("queue://" + source).removeAll(taken);
            }
            connection.close();
        }
    }

    private void drain() throws Exception {
        resolve();
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        List<String> queues = new ArrayList<>();
        for (int i = 0; i < QUEUES; i++) {
            queues.add("ledger." + salt + i);
        }
        queues.add("ledger.xa.commit" + salt);
        // all at a time, since each ends with a pause in which nothing more comes
        ExecutorService threads = Executors.newCachedThreadPool();
        Map<String, Future<List<String>>> taken = new TreeMap<>();
        for (String queue : queues) {
            taken.put("queue://" + queue, threads.submit(() -> queue(factory, queue, FIRST)));
        }
        subscriptions(factory);
        for (Map.Entry<String, Future<List<String>>> each : taken.entrySet()) {
            places.put(each.getKey(), each.getValue().get());
        }
        List<String> rolledBack = queue(factory, "ledger.xa.rollback" + salt, NOTHING_MORE);
        if (!rolledBack.isEmpty()) {
            places.put("queue://ledger.xa.rollback" + salt, rolledBack);
        }
    }

    private static List<String> queue(ActiveMQConnectionFactory factory, String name, long first) throws Exception {
        Connection connection = factory.createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        List<String> found = all(session.createConsumer(session.createQueue(name)), first);
        connection.close();
        return found;
    }

    private void subscriptions(ActiveMQConnectionFactory factory) throws Exception {
        Connection connection = factory.createConnection();
        connection.setClientID("ledger" + salt);
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Topic topic = session.createTopic("ledger.topic" + salt);
        for (String name : new String[] {"all", "even", "some"}) {
            TopicSubscriber subscriber = name.equals("even")
                    ? session.createDurableSubscriber(topic, name, "number % 2 = 0", true)
                    : session.createDurableSubscriber(topic, name);
            places.put(name, all(subscriber, FIRST));
        }
        connection.close();
    }

    private void resolve() throws Exception {
        XAConnection connection = new ActiveMQXAConnectionFactory(url).createXAConnection();
        connection.start();
        XAResource resource = connection.createXASession().getXAResource();
        List<String> found = new ArrayList<>();
        for (Xid xid : resource.recover(XAResource.TMSTARTRSCAN | XAResource.TMENDRSCAN)) {
            String name = new String(xid.getGlobalTransactionId(), StandardCharsets.UTF_8);
            if (name.equals("commit" + salt)) {
                resource.commit(xid, false);
                found.add("commit");
            } else if (name.equals("rollback" + salt)) {
                resource.rollback(xid);
                found.add("rollback");
            }
        }
        found.sort(null);
        places.put("prepared", found);
        connection.close();
    }

    private static List<String> all(MessageConsumer consumer, long first) throws Exception {
        List<String> found = new ArrayList<>();
        Message message = consumer.receive(first);
        while (message != null) {
            found.add(describe(message));
            message = consumer.receive(NOTHING_MORE);  // a busy broker pauses between messages
        }
        consumer.close();
        return found;
    }

    private List<String> send(Session session, Destination destination, int count) throws Exception {
        MessageProducer producer = session.createProducer(destination);
        List<String> sent = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message message = make(session, KINDS[made % KINDS.length]);
            message.setIntProperty("number", made);
            message.setBooleanProperty("boolean", made % 3 == 0);
            message.setByteProperty("byte", (byte) made);
            message.setShortProperty("short", (short) -made);
            message.setLongProperty("long", Long.MIN_VALUE + made);
            message.setFloatProperty("float", made / 3f);
            message.setDoubleProperty("double", made / 7.0);
            message.setStringProperty("string", PLAIN);
            message.setJMSCorrelationID("c" + made);
            message.setJMSType(made % 4 == 0 ? null : "type" + made % 4);
            message.setJMSReplyTo(made % 5 == 0 ? null : session.createQueue("replies"));
            if (made % 7 == 0) {
                message.setStringProperty("JMSXGroupID", "group" + made % 3);
            }
            producer.send(message, javax.jms.DeliveryMode.PERSISTENT, 4, made % 6 == 0 ? 3600000 : 0);
            sent.add(describe(message));
            made++;
        }
        producer.close();
        return sent;
    }

    private Message make(Session session, String kind) throws Exception {
        switch (kind) {
            case "text":
                return session.createTextMessage(WORDS + "x".repeat(made % 3000));
            case "bytes":
                BytesMessage bytes = session.createBytesMessage();
                bytes.writeBytes(new byte[made % 2000]);
                bytes.writeUTF(WORDS);
                return bytes;
            case "map":
                MapMessage map = session.createMapMessage();
                map.setInt("int", made);
                map.setBytes("bytes", new byte[] {1, 2, (byte) made});
                map.setString("words", PLAIN);
                return map;
            case "stream":
                StreamMessage stream = session.createStreamMessage();
                stream.writeLong(made);
                stream.writeString(WORDS);
                stream.writeBytes(new byte[] {(byte) made});
                return stream;
            case "object":
                return session.createObjectMessage(new ArrayList<>(List.of("a", made)));
            default:
                return session.createMessage();
        }
    }

    /** Headers, properties and body as one line; long ones as a digest. */
    private static String describe(Message message) throws Exception {
        if (message == null) {
            return "nothing came";
        }
        Map<String, Object> found = new TreeMap<>();
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements();) {
            String name = (String) names.nextElement();
            if (!name.startsWith("JMSX") || name.equals("JMSXGroupID")) {
                found.put(name, message.getObjectProperty(name).getClass().getSimpleName() + message.getObjectProperty(name));
            }
        }
        String headers = message.getJMSMessageID() + "|" + message.getJMSTimestamp() + "|" + message.getJMSExpiration() + "|"
                + message.getJMSCorrelationID() + "|" + message.getJMSType() + "|" + message.getJMSReplyTo() + "|"
                + message.getJMSPriority() + "|" + message.getJMSDeliveryMode() + "|" + message.getJMSDestination();
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        digest.update((headers + found + body(message)).getBytes(StandardCharsets.UTF_8));
        return message.getJMSMessageID() + " " + java.util.HexFormat.of().formatHex(digest.digest(), 0, 8);
    }

    private static String body(Message message) throws Exception {
        if (message instanceof TextMessage text) {
            return "text:" + text.getText();
        }
        if (message instanceof BytesMessage bytes) {
            bytes.reset();
            byte[] data = new byte[(int) bytes.getBodyLength()];
            bytes.readBytes(data);
            return "bytes:" + java.util.HexFormat.of().formatHex(data);
        }
        if (message instanceof MapMessage map) {
            return "map:" + map.getInt("int") + java.util.HexFormat.of().formatHex(map.getBytes("bytes")) + map.getString("words");
        }
        if (message instanceof StreamMessage stream) {
            stream.reset();
            byte[] data = new byte[9];
            String values = stream.readLong() + stream.readString();
            int size = stream.readBytes(data);
            return "stream:" + values + size + data[0];
        }
        if (message instanceof ObjectMessage object) {
            return "object:" + object.getObject();
        }
        return "none";
    }

    private static final class ActiveMQSessionModes {
        static final int INDIVIDUAL = org.apache.activemq.ActiveMQSession.INDIVIDUAL_ACKNOWLEDGE;
    }

    private record Branch(String name) implements Xid {
        @Override
        public int getFormatId() {
            return 7;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return name.getBytes(StandardCharsets.UTF_8);
        }

        @Override
        public byte[] getBranchQualifier() {
            return "b".getBytes(StandardCharsets.UTF_8);
        }
    }
}
