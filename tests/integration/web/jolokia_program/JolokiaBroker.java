import java.util.Map;
import javax.jms.Connection;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.broker.BrokerService;
import org.jolokia.jvmagent.JolokiaServer;
import org.jolokia.jvmagent.JolokiaServerConfig;

/**
 * An ActiveMQ in memory whose beans Jolokia serves; prints the URL and ends with its input. A
 * producer of the queue `mail`, which has no consumer, gives its health bean a warning.
 */
public class JolokiaBroker {
    public static void main(String[] args) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("jolokia");
        broker.setPersistent(false);
        broker.setUseJmx(true);
        broker.getManagementContext().setCreateConnector(false);
        broker.start();
        Connection connection = new ActiveMQConnectionFactory("vm://jolokia").createConnection();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        session.createProducer(session.createQueue("mail"));
        JolokiaServer server =
                new JolokiaServer(new JolokiaServerConfig(Map.of("host", "127.0.0.1", "port", "0",
                        "agentContext", "/api/jolokia")), false);
        server.start();
        System.out.println(server.getUrl());
        while (System.in.read() != -1) {
        }
        server.stop();
        connection.close();
        broker.stop();
        System.exit(0);
    }
}
