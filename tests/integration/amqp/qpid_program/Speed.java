import java.util.concurrent.CountDownLatch;
import javax.jms.BytesMessage;
import javax.jms.Connection;
import javax.jms.DeliveryMode;
import javax.jms.MessageConsumer;
import javax.jms.MessageProducer;
import javax.jms.Session;
import org.apache.qpid.jms.JmsConnectionFactory;

/** Sends and receives at once until all has come, and prints the messages a second of several rounds. */
public final class Speed {
    public static void main(String[] arguments) throws Exception {
        int count = Integer.parseInt(arguments[1]);
        int rounds = Integer.parseInt(arguments[2]);
        boolean persistent = Boolean.parseBoolean(arguments[3]);
        JmsConnectionFactory factory = new JmsConnectionFactory(arguments[0]);
        try (Connection sends = factory.createConnection();
                Connection receives = factory.createConnection()) {
            receives.start();
            Session session = sends.createSession(false, Session.AUTO_ACKNOWLEDGE);
            Session other = receives.createSession(false, Session.AUTO_ACKNOWLEDGE);
            MessageProducer producer = session.createProducer(session.createQueue("speed"));
            producer.setDeliveryMode(
                persistent ? DeliveryMode.PERSISTENT : DeliveryMode.NON_PERSISTENT);
            MessageConsumer consumer = other.createConsumer(other.createQueue("speed"));
            BytesMessage message = session.createBytesMessage();
            message.writeBytes(new byte[100]);
            for (int round = 0; round < rounds; round++) {
                CountDownLatch latch = new CountDownLatch(count);
                consumer.setMessageListener(each -> latch.countDown());
                long began = System.nanoTime();
                for (int number = 0; number < count; number++) {
                    producer.send(message);
                }
                latch.await();
                System.out.println(Math.round(count * 1e9 / (System.nanoTime() - began)));
            }
        }
        System.exit(0);
    }
}
