import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.List;
import javax.jms.Connection;
import javax.jms.Session;
import javax.jms.TextMessage;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.ScheduledMessage;
import org.apache.activemq.broker.BrokerService;
import org.apache.activemq.broker.scheduler.Job;
import org.apache.activemq.broker.scheduler.JobScheduler;
import org.apache.activemq.command.ActiveMQMessage;
import org.apache.activemq.openwire.OpenWireFormat;
import org.apache.activemq.util.ByteSequence;

/**
 * Schedules messages in DIR (`write DIR`), or tells what jobs DIR holds (`read DIR`): one line each.
 * `write` prints WRITTEN when all is on disk and ends when a line comes in.
 */
public final class Jobs {
    public static void main(String[] arguments) throws Exception {
        BrokerService broker = new BrokerService();
        broker.setBrokerName("jobs");
        broker.setUseJmx(false);
        broker.setDataDirectoryFile(new File(arguments[1], "data"));
        broker.setSchedulerSupport(true);
        broker.setSchedulerDirectoryFile(new File(arguments[1], "scheduler"));
        broker.start();
        broker.waitUntilStarted();
        if (arguments[0].equals("write")) {
            write();
        }
        tell(broker.getJobSchedulerStore().getJobScheduler("JMS"));
        System.out.println("WRITTEN");
        System.out.flush();
        if (arguments[0].equals("write")) {
            new BufferedReader(new InputStreamReader(System.in)).readLine();
        }
        broker.stop();
        broker.waitUntilStopped();
        System.out.println("STOPPED");
    }

    private static void write() throws Exception {
        Connection connection = new ActiveMQConnectionFactory("vm://jobs?create=false").createConnection();
        connection.start();
        Session session = connection.createSession(false, Session.AUTO_ACKNOWLEDGE);
        for (int i = 0; i < 20; i++) {
            TextMessage message = session.createTextMessage("delayed " + i);
            message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 3_600_000 + i);
            send(session, "later", message);
        }
        TextMessage message = session.createTextMessage("cron");
        message.setStringProperty(ScheduledMessage.AMQ_SCHEDULED_CRON, "0 1 1 1 *");
        send(session, "later", message);
        message = session.createTextMessage("often");
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_DELAY, 20);
        message.setLongProperty(ScheduledMessage.AMQ_SCHEDULED_PERIOD, 20);
        message.setIntProperty(ScheduledMessage.AMQ_SCHEDULED_REPEAT, 900);
        send(session, "often", message);
        javax.jms.MessageConsumer consumer = session.createConsumer(session.createQueue("often"));
        for (int i = 0; i < 5; i++) {
            if (consumer.receive(10000) == null) {
                throw new IllegalStateException("nothing fired");
            }
        }
        connection.close();
    }

    private static void send(Session session, String queue, TextMessage message) throws Exception {
        session.createProducer(session.createQueue(queue)).send(message);
    }

    private static void tell(JobScheduler scheduler) throws Exception {
        List<Job> jobs = scheduler.getAllJobs();
        for (Job job : jobs) {
            ActiveMQMessage message = (ActiveMQMessage) new OpenWireFormat().unmarshal(new ByteSequence(job.getPayload()));
            String text = message instanceof TextMessage ? ((TextMessage) message).getText() : "";
            System.out.println(String.join("\t", "job", job.getJobId(), job.getCronEntry(),
                Long.toString(job.getDelay()), Long.toString(job.getPeriod()), Integer.toString(job.getRepeat()),
                Integer.toString(job.getExecutionCount()), job.getStartTime(), job.getNextExecutionTime(), text));
        }
    }
}
