import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeMap;
import java.util.TreeSet;
import javax.jms.Connection;
import javax.jms.Session;
import javax.jms.TextMessage;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;
import javax.management.MBeanOperationInfo;
import javax.management.MBeanParameterInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ActiveMQXAConnectionFactory;
import org.apache.activemq.ScheduledMessage;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.region.policy.AbortSlowAckConsumerStrategy;
import org.apache.activemq.broker.region.policy.AbortSlowConsumerStrategy;
import org.apache.activemq.broker.region.policy.PolicyEntry;
import org.apache.activemq.broker.region.policy.PolicyMap;

/** Prints the JMX beans of an ActiveMQ that has one of each kind: per Java class its attributes
    (with * if they can be written) and operations, and the keys of their object names; then the
    fields of a queue in a query. */
public final class ManagedBroker {
    private static final class Branch implements Xid {
        public int getFormatId() {
            return 7;
        }

        public byte[] getGlobalTransactionId() {
            return new byte[] {1, 2};
        }

        public byte[] getBranchQualifier() {
            return new byte[] {3};
        }
    }

    public static void main(String[] arguments) throws Exception {
        File data = new File(arguments[0]);
        BrokerService broker = started(data);
        prepare();
        broker.stop();
        broker.waitUntilStopped();
        broker = started(data);
        use();
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        TreeMap<String, List<String>> members = new TreeMap<>();
        TreeMap<String, TreeSet<String>> keys = new TreeMap<>();
        ObjectName root = new ObjectName("org.apache.activemq:type=Broker,brokerName=managed");
        for (ObjectName name : (ObjectName[]) server.getAttribute(root, "Queues")) {
            server.getAttribute(name, "SlowConsumerStrategy"); // registers the strategy's bean
        }
        for (ObjectName name : server.queryNames(new ObjectName("org.apache.activemq:*"), null)) {
            MBeanInfo info = server.getMBeanInfo(name);
            members.put(info.getClassName(), members(info));
            String found = String.join(",", new TreeSet<>(name.getKeyPropertyList().keySet()));
            keys.computeIfAbsent(info.getClassName(), any -> new TreeSet<>()).add(found);
        }
        for (String type : members.keySet()) {
            System.out.println("B " + type);
            keys.get(type).forEach(found -> System.out.println("K " + found));
            members.get(type).forEach(System.out::println);
        }
        String[] types = {"java.lang.String", "int", "int"};
        String query = "{\"name\":\"orders\",\"filter\":\"nonEmpty\",\"sortColumn\":\"queueSize\",\"sortOrder\":\"desc\"}";
        Object answer = server.invoke(root, "queryQueues", new Object[] {query, 1, 2}, types);
        JsonNode queues = new ObjectMapper().readTree(answer.toString()).get("data");
        TreeSet<String> fields = new TreeSet<>();
        queues.elements().next().fieldNames().forEachRemaining(fields::add);
        System.out.println("Q " + String.join(" ", fields));
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    private static List<String> members(MBeanInfo info) {
        TreeSet<String> lines = new TreeSet<>();
        for (MBeanAttributeInfo each : info.getAttributes()) {
            String star = each.isWritable() ? "*" : "";
            lines.add("A " + each.getName() + star + " " + each.getType());
        }
        for (MBeanOperationInfo each : info.getOperations()) {
            List<String> types = new ArrayList<>();
            for (MBeanParameterInfo parameter : each.getSignature()) {
                types.add(parameter.getType());
            }
            lines.add("O " + each.getName() + "(" + String.join(",", types) + ") " + each.getReturnType());
        }
        return new ArrayList<>(lines);
    }

    private static BrokerService started(File data) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("managed");
        broker.setDataDirectoryFile(data);
        broker.getManagementContext().setCreateConnector(false);
        broker.setSchedulerSupport(true);
        broker.getSystemUsage().getStoreUsage().setLimit(1L << 30);
        broker.getSystemUsage().getTempUsage().setLimit(1L << 30);
        broker.getSystemUsage().getJobSchedulerUsage().setLimit(1L << 30);
        PolicyEntry slow = new PolicyEntry();
        slow.setQueue("slow");
        slow.setSlowConsumerStrategy(new AbortSlowConsumerStrategy());
        PolicyEntry late = new PolicyEntry();
        late.setQueue("late");
        late.setSlowConsumerStrategy(new AbortSlowAckConsumerStrategy());
        PolicyMap policies = new PolicyMap();
        policies.setPolicyEntries(Arrays.asList(slow, late));
        broker.setDestinationPolicy(policies);
        broker.addConnector("tcp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        return broker;
    }

    /** Leave a prepared transaction behind. */
    private static void prepare() throws Exception {
        XAConnection connection = new ActiveMQXAConnectionFactory("vm://managed?create=false").createXAConnection();
        connection.start();
        XASession session = connection.createXASession();
        XAResource resource = session.getXAResource();
        Xid xid = new Branch();
        resource.start(xid, XAResource.TMNOFLAGS);
        session.createProducer(session.createQueue("prepared")).send(session.createTextMessage("x"));
        resource.end(xid, XAResource.TMSUCCESS);
        resource.prepare(xid);
    }

    private static void use() throws Exception {
        Connection connection = new ActiveMQConnectionFactory("vm://managed?create=false").createConnection();
        connection.setClientID("me");
        connection.start();
        Session session = connection.createSession(false, Session.CLIENT_ACKNOWLEDGE);
        session.createConsumer(session.createTemporaryQueue());
        session.createConsumer(session.createTemporaryTopic());
        for (String name : new String[] {"orders", "slow", "late"}) {
            session.createProducer(session.createQueue(name)).send(session.createTextMessage("x"));
            session.createConsumer(session.createQueue(name));
        }
        session.createProducer(null).send(session.createQueue("empty"), session.createTextMessage("x"));
        session.createConsumer(session.createQueue("orders.>"));
        session.createBrowser(session.createQueue("empty")).getEnumeration().hasMoreElements();
        session.createConsumer(session.createTopic("news"));
        session.createDurableSubscriber(session.createTopic("news"), "active");
        session.createDurableSubscriber(session.createTopic("news"), "inactive").close();
        TextMessage later = session.createTextMessage("later");
        later.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 3600_000);
        session.createProducer(session.createQueue("orders")).send(later);
        new ActiveMQConnectionFactory(
                ((org.apache.activemq.broker.TransportConnector) org.apache.activemq.broker.BrokerRegistry
                        .getInstance().lookup("managed").getTransportConnectors().get(0))
                        .getPublishableConnectString()).createConnection().start();
    }
}
