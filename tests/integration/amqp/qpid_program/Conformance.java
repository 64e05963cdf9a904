import org.junit.runner.JUnitCore;
import org.junit.runner.Result;
import org.junit.runner.notification.Failure;
import org.objectweb.jtests.jms.conform.connection.ConnectionTest;
import org.objectweb.jtests.jms.conform.connection.TopicConnectionTest;
import org.objectweb.jtests.jms.conform.message.MessageBodyTest;
import org.objectweb.jtests.jms.conform.message.MessageDefaultTest;
import org.objectweb.jtests.jms.conform.message.MessageTypeTest;
import org.objectweb.jtests.jms.conform.message.headers.MessageHeaderTest;
import org.objectweb.jtests.jms.conform.message.properties.JMSXPropertyTest;
import org.objectweb.jtests.jms.conform.message.properties.MessagePropertyConversionTest;
import org.objectweb.jtests.jms.conform.message.properties.MessagePropertyTest;
import org.objectweb.jtests.jms.conform.queue.QueueBrowserTest;
import org.objectweb.jtests.jms.conform.queue.TemporaryQueueTest;
import org.objectweb.jtests.jms.conform.selector.SelectorSyntaxTest;
import org.objectweb.jtests.jms.conform.selector.SelectorTest;
import org.objectweb.jtests.jms.conform.session.QueueSessionTest;
import org.objectweb.jtests.jms.conform.session.SessionTest;
import org.objectweb.jtests.jms.conform.session.TopicSessionTest;
import org.objectweb.jtests.jms.conform.session.UnifiedSessionTest;
import org.objectweb.jtests.jms.conform.topic.TemporaryTopicTest;

/** Runs JORAM's conformance tests of JMS 1.1 with Qpid JMS against the broker of a URL. */
public final class Conformance {
    public static void main(String[] arguments) {
        System.setProperty("broker", arguments[0]);
        Result result = JUnitCore.runClasses(
            ConnectionTest.class, TopicConnectionTest.class, MessageBodyTest.class,
            MessageDefaultTest.class, MessageTypeTest.class, MessageHeaderTest.class,
            JMSXPropertyTest.class, MessagePropertyConversionTest.class, MessagePropertyTest.class,
            QueueBrowserTest.class, TemporaryQueueTest.class, SelectorSyntaxTest.class,
            SelectorTest.class, QueueSessionTest.class, SessionTest.class, TopicSessionTest.class,
            UnifiedSessionTest.class, TemporaryTopicTest.class);
        for (Failure each : result.getFailures()) {
            System.out.println(each.getTestHeader() + ": " + each.getMessage());
        }
        System.out.println(result.getRunCount() + " run, " + result.getFailureCount() + " failed");
        System.exit(0);
    }
}
