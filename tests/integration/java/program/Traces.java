import java.util.List;
import java.util.Map;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.Session;
import javax.jms.TemporaryQueue;
import javax.jms.TextMessage;

/** A client that OpenTelemetry's Java agent instruments: its messages carry the trace as properties. */
final class Traces {
    static void register(Map<String, Probe.Scenario> scenarios) {
        scenarios.put("traced-request", (url, a) -> request(url, a.get(0), a.subList(1, a.size())));
    }

    /** The properties of the reply to a request that has properties NAME=VALUE. */
    private static Object request(String url, String queue, List<String> properties) throws Exception {
        return Probe.connected(url, c -> {
            Session session = Probe.auto(c);
            TemporaryQueue replies = session.createTemporaryQueue();
            MessageConsumer consumer = session.createConsumer(replies);
            TextMessage message = session.createTextMessage("from Java");
            message.setJMSReplyTo(replies);
            for (String property : properties) {
                String[] pair = property.split("=", 2);
                message.setStringProperty(pair[0], pair[1]);
            }
            session.createProducer(session.createQueue(queue)).send(message);
            Message reply = consumer.receive(4 * Probe.PATIENCE);
            return reply == null ? null : Messages.describe(reply);
        });
    }
}
