import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Enumeration;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.Destination;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnection;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Sends messages of all kinds to a broker and takes some of them out again: JournalFiller URL.
 * Prints one line of JSON a message that was committed, with what it holds and whether it was taken.
 */
public final class JournalFiller {
    private static final String[] KINDS = {"none", "text", "bytes", "map", "stream", "object"};
    private static final String WORDS = "gr\u00fc\u00df dich \ud83d\ude00 \u0000 \u20ac";
    private final List<Map<String, Object>> sent = new ArrayList<>();
    private int made;

    public static void main(String[] arguments) throws Exception {
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(arguments[0]);
        ActiveMQConnection connection = (ActiveMQConnection) factory.createConnection();
        connection.setClientID("journal");
        connection.start();
        JournalFiller filler = new JournalFiller();
        filler.fill(connection);
        connection.close();
        ObjectMapper mapper = new ObjectMapper();
        for (Map<String, Object> message : filler.sent) {
            System.out.println(mapper.writeValueAsString(message));
        }
        System.exit(0);
    }

    private void fill(ActiveMQConnection connection) throws Exception {
        Session auto = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        Session transacted = connection.createSession(true, Session.SESSION_TRANSACTED);
        send(auto, auto.createQueue("bulk"), 2000, 1500);
        take(auto, "bulk", 2000);
        send(auto, auto.createQueue("bulk"), 2000, 1500);
        take(auto, "bulk", 2000);
        auto.createDurableSubscriber(auto.createTopic("news"), "all").close();
        send(auto, auto.createQueue("kinds"), 300, 50);
        connection.setUseCompression(true);
        send(auto, auto.createQueue("small"), 60, 3000);
        connection.setUseCompression(false);
        send(transacted, transacted.createQueue("kinds"), 120, 50);
        transacted.commit();
        int kept = sent.size();
        send(transacted, transacted.createQueue("kinds"), 30, 50);
        transacted.rollback();
        sent.subList(kept, sent.size()).clear();
        take(auto, "kinds", 90);
        send(auto, auto.createTopic("news"), 40, 50);
    }

    private void take(Session session, String queue, int count) throws Exception {
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        for (int i = 0; i < count; i++) {
            String id = consumer.receive(10000).getJMSMessageID();
            sent.stream().filter(m -> m.get("message_id").equals(id)).forEach(m -> m.put("taken", true));
        }
        consumer.close();
    }

    private void send(Session session, Destination destination, int count, int size) throws Exception {
        MessageProducer producer = session.createProducer(destination);
        for (int i = 0; i < count; i++) {
            Map<String, Object> row = new LinkedHashMap<>();
            Message message = make(session, KINDS[made % KINDS.length], size, row);
            message.setIntProperty("number", made);
            message.setBooleanProperty("boolean", made % 3 == 0);
            message.setByteProperty("byte", (byte) made);
            message.setShortProperty("short", (short) -made);
            message.setLongProperty("long", Long.MIN_VALUE + made);
            message.setFloatProperty("float", made / 3f);
            message.setDoubleProperty("double", made / 7.0);
            message.setDoubleProperty("large", made * 1e9);
            message.setFloatProperty("tiny", made * 1e-7f);
            message.setStringProperty("string", "gr\u00fc\u00df \u20ac");
            message.setJMSCorrelationID("c" + made);
            message.setJMSType(made % 4 == 0 ? null : "type" + made % 4);
            message.setJMSReplyTo(made % 5 == 0 ? null : session.createQueue("replies"));
            if (made % 7 == 0) {
                message.setStringProperty("JMSXGroupID", "group" + made % 3);
                message.setIntProperty("JMSXGroupSeq", made);
            }
            producer.send(message, DeliveryMode.PERSISTENT, made % 10, made % 6 == 0 ? 3600000 : 0);
            row.put("taken", false);
            describe(message, destination, row);
            sent.add(row);
            made++;
        }
        producer.close();
    }

    private Message make(Session session, String kind, int size, Map<String, Object> row) throws Exception {
        row.put("body_kind", kind);
        byte[] data = new byte[made % size];
        switch (kind) {
            case "text":
                String text = WORDS + "x".repeat(made % size);
                row.put("text", text);
                return session.createTextMessage(text);
            case "bytes":
                BytesMessage bytes = session.createBytesMessage();
                bytes.writeBytes(data);
                row.put("bytes", Base64.getEncoder().encodeToString(data));
                return bytes;
            case "map":
                MapMessage map = session.createMapMessage();
                map.setInt("int", made);
                map.setDouble("double", made / 7.0);
                map.setBytes("bytes", new byte[] {1, 2, (byte) made});
                map.setString("words", WORDS);
                map.setObject("nothing", null);
                Map<String, Object> values = new TreeMap<>(Map.of("int", made, "double", made / 7.0, "words", WORDS));
                values.put("bytes", Base64.getEncoder().encodeToString(new byte[] {1, 2, (byte) made}));
                values.put("nothing", null);
                row.put("values", values);
                return map;
            case "stream":
                StreamMessage stream = session.createStreamMessage();
                stream.writeLong(made);
                stream.writeString(WORDS);
                stream.writeBoolean(made % 2 == 0);
                row.put("values", List.of(made, WORDS, made % 2 == 0));
                return stream;
            case "object":
                return session.createObjectMessage(new ArrayList<>(List.of("a", made)));
            default:
                return session.createMessage();
        }
    }

    private static void describe(Message message, Destination destination, Map<String, Object> row) throws Exception {
        Map<String, String> properties = new TreeMap<>();
        for (Enumeration<?> names = message.getPropertyNames(); names.hasMoreElements();) {
            String name = (String) names.nextElement();
            if (!name.startsWith("JMSX")) {
                properties.put(name, message.getStringProperty(name));
            }
        }
        row.put("properties", properties);
        row.put("message_id", message.getJMSMessageID());
        row.put("destination", destination.toString());
        row.put("timestamp", message.getJMSTimestamp());
        row.put("expiration", message.getJMSExpiration());
        row.put("correlation_id", message.getJMSCorrelationID());
        row.put("type", message.getJMSType());
        row.put("reply_to", message.getJMSReplyTo() == null ? null : message.getJMSReplyTo().toString());
        row.put("priority", message.getJMSPriority());
        row.put("delivery_mode", message.getJMSDeliveryMode());
        row.put("group_id", message.getStringProperty("JMSXGroupID"));
        row.put("group_seq", message.propertyExists("JMSXGroupID") ? message.getIntProperty("JMSXGroupSeq") : null);
    }
}
