import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import javax.jms.Connection;
import javax.jms.JMSException;
import javax.jms.Message;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.TransactionRolledBackException;
import org.apache.activemq.ActiveMQConnectionFactory;

/**
 * Clients that spread over the brokers of a network: "Cluster URL COUNT". Each connection has a consumer of a queue of
 * its own. For each line of the input, each sends this text to the queue of the next one, every second one in a
 * transaction; "got TEXT" says that all have come. They leave at the end of the input.
 */
public final class Cluster {
    private static final long PATIENCE = 60_000;

    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        List<Connection> connections = new ArrayList<>();
        List<Session> sessions = new ArrayList<>();
        List<MessageConsumer> consumers = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            Connection connection = new ActiveMQConnectionFactory(arguments[0]).createConnection();
            connection.start();
            connections.add(connection);
            sessions.add(connection.createSession(i % 2 == 1, Session.AUTO_ACKNOWLEDGE));
            Session receiving = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            consumers.add(receiving.createConsumer(receiving.createQueue("cluster." + i)));
        }
        System.out.println("connected");
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String text = lines.readLine(); text != null; text = lines.readLine()) {
            for (int i = 0; i < count; i++) {
                send(sessions.get(i), "cluster." + (i + 1) % count, text);
            }
            for (MessageConsumer consumer : consumers) {
                receive(consumer, text);
            }
            System.out.println("got " + text);
        }
        for (Connection connection : connections) {
            connection.close();
        }
    }

    private static void send(Session session, String queue, String text) throws JMSException {
        MessageProducer producer = session.createProducer(session.createQueue(queue));
        boolean done = false;
        while (!done) {
            producer.send(session.createTextMessage(text));
            try {
                if (session.getTransacted()) {
                    session.commit();
                }
                done = true;
            } catch (TransactionRolledBackException error) {
                System.err.println("again: " + error.getMessage());
            }
        }
        producer.close();
    }

    /** What was in doubt may have come twice. */
    private static void receive(MessageConsumer consumer, String text) throws JMSException {
        String got = null;
        while (!text.equals(got)) {
            Message message = consumer.receive(PATIENCE);
            if (message == null) {
                throw new IllegalStateException("nothing comes any more, after " + got);
            }
            got = ((TextMessage) message).getText();
        }
    }
}
