import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Enumeration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.jms.BytesMessage;
import javax.jms.DeliveryMode;
import javax.jms.JMSException;
import javax.jms.MapMessage;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageEOFException;
import javax.jms.MessageProducer;
import javax.jms.ObjectMessage;
import javax.jms.Session;
import javax.jms.StreamMessage;
import javax.jms.TextMessage;
import org.apache.activemq.command.ActiveMQMessage;

/** Messages of every kind with headers and properties of every type: sent, received and described. */
final class Messages {
    static final String[] KINDS = {"message", "text", "bytes", "map", "stream", "object"};
    static final String WORDS = "gr\u00fc\u00df dich \ud83d\ude00 \u0000 \u20ac";

    static void register(Map<String, Probe.Scenario> scenarios) {
        scenarios.put("send-kinds", (url, a) -> Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            sendKinds(session, a.get(0));
            return KINDS.length;
        }));
        scenarios.put("receive", (url, a) -> Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            return receive(session, a.get(0), Integer.parseInt(a.get(1)));
        }));
        scenarios.put("kinds", (url, a) -> Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            sendKinds(session, a.get(0));
            return receive(session, a.get(0), KINDS.length);
        }));
        scenarios.put("empty", (url, a) -> Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            MessageProducer producer = session.createProducer(session.createQueue(a.get(0)));
            Message[] empty = {session.createTextMessage(), session.createTextMessage(""), session.createBytesMessage(),
                session.createMapMessage(), session.createStreamMessage(), session.createObjectMessage()};
            for (Message message : empty) {
                producer.send(message);
            }
            return receive(session, a.get(0), empty.length);
        }));
        scenarios.put("large", (url, a) -> Probe.connected(url, c -> large(Probe.auto(c), a.get(0), Integer.parseInt(a.get(1)))));
    }

    private static Object large(Session session, String queue, int size) throws JMSException {
        byte[] data = new byte[size];
        new java.util.Random(size).nextBytes(data);
        BytesMessage message = session.createBytesMessage();
        message.writeBytes(data);
        session.createProducer(session.createQueue(queue)).send(message);
        BytesMessage received = (BytesMessage) session.createConsumer(session.createQueue(queue)).receive(Probe.PATIENCE);
        byte[] back = new byte[(int) received.getBodyLength()];
        received.readBytes(back);
        return Arrays.equals(data, back);
    }

    private static List<Object> receive(Session session, String queue, int count) throws JMSException {
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        List<Object> found = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Message message = consumer.receive(Probe.PATIENCE);
            found.add(message == null ? null : describe(message));
        }
        consumer.close();
        return found;
    }

    static void sendKinds(Session session, String queue) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        for (String kind : KINDS) {
            Message message = make(session, kind);
            message.setJMSCorrelationID("c-" + kind);
            message.setJMSType("type-" + kind);
            message.setJMSReplyTo(kind.equals("text") ? session.createTopic("replies") : session.createQueue("replies"));
            setProperties(message);
            producer.send(message, kind.equals("bytes") ? DeliveryMode.NON_PERSISTENT : DeliveryMode.PERSISTENT, 7, 600000);
        }
        producer.close();
    }

    private static void setProperties(Message message) throws JMSException {
        message.setBooleanProperty("boolean", true);
        message.setByteProperty("byte", (byte) -128);
        message.setShortProperty("short", (short) -32768);
        message.setIntProperty("int", Integer.MIN_VALUE);
        message.setLongProperty("long", Long.MIN_VALUE);
        message.setFloatProperty("float", 1.5f);
        message.setDoubleProperty("double", 0.1);
        message.setStringProperty("String", WORDS);
        message.setObjectProperty("null", null);
        message.setStringProperty("JMSXGroupID", "group");
        message.setIntProperty("JMSXGroupSeq", 3);
    }

    private static Message make(Session session, String kind) throws JMSException {
        switch (kind) {
            case "text":
                return session.createTextMessage(WORDS);
            case "bytes":
                BytesMessage bytes = session.createBytesMessage();
                bytes.writeBoolean(true);
                bytes.writeByte((byte) -1);
                bytes.writeShort((short) -2);
                bytes.writeChar('\u20ac');
                bytes.writeInt(-3);
                bytes.writeLong(-4);
                bytes.writeFloat(1.5f);
                bytes.writeDouble(0.1);
                bytes.writeUTF(WORDS);
                bytes.writeBytes(new byte[] {1, 2, 3});
                return bytes;
            case "map":
                MapMessage map = session.createMapMessage();
                for (Map.Entry<String, Object> entry : values().entrySet()) {
                    map.setObject(entry.getKey(), entry.getValue());
                }
                return map;
            case "stream":
                StreamMessage stream = session.createStreamMessage();
                for (Object value : values().values()) {
                    stream.writeObject(value);
                }
                return stream;
            case "object":
                return session.createObjectMessage("an object");
            default:
                return session.createMessage();
        }
    }

    /** One value of each type that bodies can have, by names in their order. */
    private static Map<String, Object> values() {
        Map<String, Object> values = new TreeMap<>();
        values.put("a-boolean", true);
        values.put("b-byte", (byte) 127);
        values.put("c-short", (short) 32767);
        values.put("d-char", '\u20ac');
        values.put("e-int", Integer.MAX_VALUE);
        values.put("f-long", Long.MAX_VALUE);
        values.put("g-float", 1.5f);
        values.put("h-double", 0.1);
        values.put("i-String", WORDS);
        values.put("j-bytes", new byte[] {1, 2, 3});
        values.put("k-null", null);
        return values;
    }

    static Object describe(Message message) throws JMSException {
        Map<String, Object> properties = new TreeMap<>();
        Enumeration<?> names = message.getPropertyNames();
        while (names.hasMoreElements()) {
            String name = (String) names.nextElement();
            properties.put(name, typed(message.getObjectProperty(name)));
        }
        return Probe.map(
                "body", body(message),
                "properties", properties,
                "id", message.getJMSMessageID(),
                "correlation", message.getJMSCorrelationID(),
                "type", message.getJMSType(),
                "replyTo", message.getJMSReplyTo() == null ? null : message.getJMSReplyTo().toString(),
                "destination", message.getJMSDestination().toString(),
                "original", original(message),
                "priority", message.getJMSPriority(),
                "persistent", message.getJMSDeliveryMode() == DeliveryMode.PERSISTENT,
                "lives", message.getJMSExpiration() == 0 ? 0 : message.getJMSExpiration() - message.getJMSTimestamp(),
                "redelivered", message.getJMSRedelivered());
    }

    private static String original(Message message) {
        Object destination = ((ActiveMQMessage) message).getOriginalDestination();
        return destination == null ? null : destination.toString();
    }

    private static List<Object> body(Message message) throws JMSException {
        if (message instanceof TextMessage) {
            return Arrays.asList("text", ((TextMessage) message).getText());
        } else if (message instanceof BytesMessage) {
            byte[] data = new byte[(int) ((BytesMessage) message).getBodyLength()];
            ((BytesMessage) message).readBytes(data);
            return Arrays.asList("bytes", hex(data));
        } else if (message instanceof MapMessage) {
            Map<String, Object> values = new TreeMap<>();
            for (Object name : Collections.list(((MapMessage) message).getMapNames())) {
                values.put((String) name, typed(((MapMessage) message).getObject((String) name)));
            }
            return Arrays.asList("map", values);
        } else if (message instanceof StreamMessage) {
            return Arrays.asList("stream", stream((StreamMessage) message));
        } else if (message instanceof ObjectMessage) {
            return Arrays.asList("object", typed(((ObjectMessage) message).getObject()));
        }
        return Arrays.asList("message", null);
    }

    private static List<Object> stream(StreamMessage message) throws JMSException {
        List<Object> values = new ArrayList<>();
        while (true) {
            try {
                values.add(typed(message.readObject()));
            } catch (MessageEOFException end) {
                return values;
            }
        }
    }

    private static Object typed(Object value) {
        if (value == null) {
            return null;
        }
        String type = value instanceof byte[] ? "bytes" : value.getClass().getSimpleName();
        return Arrays.asList(type, value instanceof byte[] ? hex((byte[]) value) : value.toString());
    }

    private static String hex(byte[] data) {
        StringBuilder out = new StringBuilder();
        for (byte b : data) {
            out.append(String.format("%02x", b));
        }
        return out.toString();
    }

    private Messages() {
    }
}
