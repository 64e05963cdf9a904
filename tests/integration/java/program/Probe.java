import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import javax.jms.Connection;
import javax.jms.ConnectionFactory;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * The real Java client, told what to do: "Probe NAME URL ARGUMENT..." does one thing and prints its result;
 * "Probe serve" reads such lines (separated by tabs) and answers each with one line of JSON:
 * {"value": ...} or {"error": class, "message": text, "code": XA error or null}.
 */
public final class Probe {
    interface Scenario {
        Object run(String url, List<String> arguments) throws Exception;
    }

    static final Map<String, Scenario> SCENARIOS = new HashMap<>();
    static final long PATIENCE = 5000;
    static final long SHORT = 300;

    public static void main(String[] arguments) throws Exception {
        ClientApi.register(SCENARIOS);
        Messages.register(SCENARIOS);
        Sessions.register(SCENARIOS);
        Routing.register(SCENARIOS);
        Transactions.register(SCENARIOS);
        SpringContainers.register(SCENARIOS);
        Interruptions.register(SCENARIOS);
        Traces.register(SCENARIOS);
        if (!arguments[0].equals("serve")) {
            say(run(Arrays.asList(arguments)));
            return;
        }
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        say("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            say(run(Arrays.asList(line.split("\t", -1))));
        }
        System.exit(0);
    }

    private static Object run(List<String> words) {
        try {
            Scenario scenario = SCENARIOS.get(words.get(0));
            if (scenario == null) {
                throw new IllegalArgumentException("no scenario " + words.get(0));
            }
            return map("value", scenario.run(words.get(1), words.subList(2, words.size())));
        } catch (Throwable error) {
            Object code = error instanceof javax.transaction.xa.XAException
                    ? ((javax.transaction.xa.XAException) error).errorCode : null;
            error.printStackTrace();
            return map("error", error.getClass().getName(), "message", String.valueOf(error.getMessage()), "code", code);
        }
    }

    // ------------------------------------------------------------------ steps that many scenarios take

    interface Work {
        Object with(Connection connection) throws Exception;
    }

    /** The factory of ActiveMQ's client; for an amqp: URL that of Qpid JMS, if it is there. */
    private static ConnectionFactory factory(String url) throws Exception {
        if (!url.startsWith("amqp:")) {
            return new ActiveMQConnectionFactory(url);
        }
        Class<?> qpid = Class.forName("org.apache.qpid.jms.JmsConnectionFactory");
        return (ConnectionFactory) qpid.getConstructor(String.class).newInstance(url);
    }

    /** A started connection of the default settings, closed afterwards. */
    static Object connected(String url, Work work) throws Exception {
        Connection connection = factory(url).createConnection();
        try {
            connection.start();
            return work.with(connection);
        } finally {
            connection.close();
        }
    }

    static Session auto(Connection connection) throws JMSException {
        return connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
    }

    static void send(Session session, javax.jms.Destination destination, String... texts) throws JMSException {
        MessageProducer producer = session.createProducer(destination);
        for (String text : texts) {
            producer.send(session.createTextMessage(text));
        }
        producer.close();
    }

    /** text#deliveryCount, with * when it is redelivered; null for no message. */
    static String delivery(Message message) throws JMSException {
        return message == null ? null : text(message) + "#" + message.getIntProperty("JMSXDeliveryCount")
                + (message.getJMSRedelivered() ? "*" : "");
    }

    static String text(Message message) throws JMSException {
        return message == null ? null : ((TextMessage) message).getText();
    }

    static List<String> deliveries(MessageConsumer consumer, int count) throws JMSException {
        String[] found = new String[count];
        for (int i = 0; i < count; i++) {
            found[i] = delivery(consumer.receive(PATIENCE));
        }
        return Arrays.asList(found);
    }

    /** Everything that is left in a queue, consumed. */
    static List<String> left(Connection connection, String queue) throws JMSException {
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        List<String> found = new java.util.ArrayList<>();
        for (Message m = consumer.receive(SHORT); m != null; m = consumer.receive(SHORT)) {
            found.add(delivery(m));
        }
        session.close();
        return found;
    }

    /** The dead letter whose text this is, described. */
    static Object dead(Connection connection, String text) throws JMSException {
        Session session = auto(connection);
        MessageConsumer consumer = session.createConsumer(
                session.createQueue("ActiveMQ.DLQ"), "JMSCorrelationID = '" + text + "'");
        Message message = consumer.receive(PATIENCE);
        Object found = message == null ? null : Messages.describe(message);
        session.close();
        return found;
    }

    static Map<String, Object> map(Object... pairs) {
        Map<String, Object> made = new LinkedHashMap<>();
        for (int i = 0; i < pairs.length; i += 2) {
            made.put((String) pairs[i], pairs[i + 1]);
        }
        return made;
    }

    // ------------------------------------------------------------------ JSON

    static synchronized void say(Object value) {
        StringBuilder out = new StringBuilder();
        json(out, value);
        byte[] bytes = out.append('\n').toString().getBytes(StandardCharsets.UTF_8);
        System.out.write(bytes, 0, bytes.length);
        System.out.flush();
    }

    private static void json(StringBuilder out, Object value) {
        if (value == null || value instanceof Boolean || value instanceof Integer || value instanceof Long) {
            out.append(value);
        } else if (value instanceof Map) {
            String separator = "{";
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) value).entrySet()) {
                out.append(separator);
                quote(out, String.valueOf(entry.getKey()));
                json(out.append(':'), entry.getValue());
                separator = ",";
            }
            out.append(separator.equals("{") ? "{}" : "}");
        } else if (value instanceof Iterable) {
            String separator = "[";
            for (Object item : (Iterable<?>) value) {
                json(out.append(separator), item);
                separator = ",";
            }
            out.append(separator.equals("[") ? "[]" : "]");
        } else {
            quote(out, value.toString());
        }
    }

    private static void quote(StringBuilder out, String text) {
        out.append('"');
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\' || c < ' ' || c > '~') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
