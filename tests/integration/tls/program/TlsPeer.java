import javax.jms.Connection;
import javax.jms.MessageConsumer;
import javax.jms.Queue;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;

/** ActiveMQ with the stores of Java's system properties: `broker uri...`, or `client url`. */
public final class TlsPeer {
    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("client")) {
            exchange(arguments[1]);
        } else {
            serve(arguments);
        }
    }

    private static void serve(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setPersistent(false);
        for (int i = 1; i < arguments.length; i++) {
            broker.addConnector(arguments[i]);
        }
        broker.start();
        broker.waitUntilStarted();
        StringBuilder uris = new StringBuilder();
        broker.getTransportConnectors().forEach(each -> {
            try {
                uris.append(' ').append(each.getConnectUri());
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
        System.out.println("openwire accepts connections at" + uris);
        broker.waitUntilStopped();
    }

    private static void exchange(String url) throws Exception {
        Connection connection = new ActiveMQConnectionFactory(url).createConnection();
        try {
            connection.start();
            Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Queue queue = session.createQueue("tls");
            session.createProducer(queue).send(session.createTextMessage("from Java"));
            MessageConsumer consumer = session.createConsumer(queue);
            System.out.println(((TextMessage) consumer.receive(10000)).getText());
        } finally {
            connection.close();
        }
    }
}
