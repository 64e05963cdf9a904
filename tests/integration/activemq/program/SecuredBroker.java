import java.util.ArrayList;
import java.util.List;
import org.apache.activemq.broker.BrokerPlugin;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.command.ActiveMQDestination;
import org.apache.activemq.security.AuthenticationUser;
import org.apache.activemq.security.AuthorizationEntry;
import org.apache.activemq.security.AuthorizationPlugin;
import org.apache.activemq.security.DefaultAuthorizationMap;
import org.apache.activemq.security.SimpleAuthenticationPlugin;
import org.apache.activemq.security.TempDestinationAuthorizationEntry;

/** ActiveMQ in memory with users and rights: prints where it accepts connections.
    Arguments: user NAME GROUPS, entry DESTINATION READ WRITE ADMIN, temporary READ WRITE ADMIN,
    destination NAME; every password is `secret`. */
public final class SecuredBroker {
    public static void main(String[] arguments) throws Exception {
        List<AuthenticationUser> users = new ArrayList<>();
        List<org.apache.activemq.filter.DestinationMapEntry> entries = new ArrayList<>();
        List<ActiveMQDestination> destinations = new ArrayList<>();
        DefaultAuthorizationMap rights = new DefaultAuthorizationMap();
        for (int at = 0; at < arguments.length;) {
            switch (arguments[at++]) {
                case "user":
                    users.add(new AuthenticationUser(arguments[at++], "secret", arguments[at++]));
                    break;
                case "entry":
                    ActiveMQDestination named = named(arguments[at++]);
                    AuthorizationEntry entry = new AuthorizationEntry();
                    entry.setDestination(named);
                    at = grant(entry, arguments, at);
                    entries.add(entry);
                    break;
                case "temporary":
                    TempDestinationAuthorizationEntry temporary =
                            new TempDestinationAuthorizationEntry();
                    at = grant(temporary, arguments, at);
                    rights.setTempDestinationAuthorizationEntry(temporary);
                    break;
                default:
                    destinations.add(named(arguments[at++]));
            }
        }
        rights.setAuthorizationEntries(entries);
        BrokerService broker = new BrokerService();
        broker.setUseJmx(false);
        broker.setPersistent(false);
        broker.setDestinations(destinations.toArray(new ActiveMQDestination[0]));
        broker.setPlugins(new BrokerPlugin[] {
            new SimpleAuthenticationPlugin(users), new AuthorizationPlugin(rights)});
        broker.addConnector("tcp://127.0.0.1:0");
        broker.start();
        broker.waitUntilStarted();
        System.out.println("openwire accepts connections at "
                + broker.getTransportConnectors().get(0).getPublishableConnectString());
        broker.waitUntilStopped();
    }

    private static ActiveMQDestination named(String name) {
        return ActiveMQDestination.createDestination(name, ActiveMQDestination.QUEUE_TYPE);
    }

    private static int grant(AuthorizationEntry entry, String[] arguments, int at)
            throws Exception {
        entry.setRead(arguments[at]);
        entry.setWrite(arguments[at + 1]);
        entry.setAdmin(arguments[at + 2]);
        return at + 3;
    }
}
