import java.util.Hashtable;
import java.util.concurrent.atomic.AtomicInteger;
import javax.naming.Context;
import javax.naming.NamingException;
import org.apache.qpid.jms.jndi.JmsInitialContextFactory;
import org.objectweb.jtests.jms.admin.Admin;

/** Names the factories and destinations of the conformance tests; each destination is a new one. */
public final class QpidAdmin implements Admin {
    private static final AtomicInteger COUNTER = new AtomicInteger();
    private final Hashtable<String, Object> names = new Hashtable<>();

    @Override
    public String getName() {
        return "qpid-jms";
    }

    @Override
    public Context createContext() throws NamingException {
        names.put(Context.INITIAL_CONTEXT_FACTORY, JmsInitialContextFactory.class.getName());
        return new JmsInitialContextFactory().getInitialContext(names);
    }

    @Override
    public void createConnectionFactory(String name) {
        names.put("connectionfactory." + name, System.getProperty("broker"));
    }

    @Override
    public void createQueueConnectionFactory(String name) {
        createConnectionFactory(name);
    }

    @Override
    public void createTopicConnectionFactory(String name) {
        createConnectionFactory(name);
    }

    @Override
    public void createQueue(String name) {
        names.put("queue." + name, name + COUNTER.incrementAndGet());
    }

    @Override
    public void createTopic(String name) {
        names.put("topic." + name, name + COUNTER.incrementAndGet());
    }

    @Override
    public void deleteQueue(String name) {
        names.remove("queue." + name);
    }

    @Override
    public void deleteTopic(String name) {
        names.remove("topic." + name);
    }

    @Override
    public void deleteConnectionFactory(String name) {
        names.remove("connectionfactory." + name);
    }

    @Override
    public void deleteQueueConnectionFactory(String name) {
        deleteConnectionFactory(name);
    }

    @Override
    public void deleteTopicConnectionFactory(String name) {
        deleteConnectionFactory(name);
    }

    @Override
    public void startServer() {
    }

    @Override
    public void stopServer() {
    }

    @Override
    public void start() {
    }

    @Override
    public void stop() {
    }
}
