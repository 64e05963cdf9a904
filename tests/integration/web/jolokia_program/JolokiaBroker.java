import java.util.Map;
import org.apache.activemq.broker.BrokerService;
import org.jolokia.jvmagent.JolokiaServer;
import org.jolokia.jvmagent.JolokiaServerConfig;

/** An ActiveMQ in memory whose beans Jolokia serves; prints the URL and ends with its input. */
public class JolokiaBroker {
    public static void main(String[] args) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("jolokia");
        broker.setPersistent(false);
        broker.setUseJmx(true);
        broker.getManagementContext().setCreateConnector(false);
        broker.start();
        JolokiaServer server =
                new JolokiaServer(new JolokiaServerConfig(Map.of("host", "127.0.0.1", "port", "0",
                        "agentContext", "/api/jolokia")), false);
        server.start();
        System.out.println(server.getUrl());
        while (System.in.read() != -1) {
        }
        server.stop();
        broker.stop();
        System.exit(0);
    }
}
