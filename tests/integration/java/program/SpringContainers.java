import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import javax.jms.Connection;
import javax.jms.MessageListener;
import javax.jms.Session;
import org.apache.activemq.ActiveMQConnectionFactory;
import org.apache.activemq.RedeliveryPolicy;
import org.springframework.jms.connection.CachingConnectionFactory;
import org.springframework.jms.core.JmsTemplate;
import org.springframework.jms.listener.DefaultMessageListenerContainer;
import org.springframework.jms.listener.SessionAwareMessageListener;

/** Spring's JmsTemplate and DefaultMessageListenerContainer, as an application uses them. */
final class SpringContainers {
    static void register(Map<String, Probe.Scenario> scenarios) {
        scenarios.put("spring-listen", (url, a) -> listen(url, a.get(0), Integer.parseInt(a.get(1)), a.get(2)));
        scenarios.put("spring-failing", (url, a) -> failing(url, a.get(0)));
        scenarios.put("spring-template", (url, a) -> template(url, a.get(0)));
        scenarios.put("spring-reply", (url, a) -> reply(url, a.get(0)));
    }

    private static ActiveMQConnectionFactory factory(String url) {
        RedeliveryPolicy policy = new RedeliveryPolicy();
        policy.setInitialRedeliveryDelay(5);
        policy.setRedeliveryDelay(5);
        ActiveMQConnectionFactory factory = new ActiveMQConnectionFactory(url);
        factory.setRedeliveryPolicy(policy);
        return factory;
    }

    private static DefaultMessageListenerContainer container(String url, String queue, Object listener, String concurrency) {
        DefaultMessageListenerContainer container = new DefaultMessageListenerContainer();
        container.setConnectionFactory(factory(url));
        container.setDestinationName(queue);
        container.setSessionTransacted(true);
        container.setConcurrency(concurrency);
        container.setReceiveTimeout(200);
        container.setMessageListener(listener);
        container.afterPropertiesSet();
        container.start();
        return container;
    }

    private static Object listen(String url, String queue, int count, String concurrency) throws Exception {
        List<String> texts = Collections.synchronizedList(new ArrayList<>());
        CountDownLatch all = new CountDownLatch(count);
        DefaultMessageListenerContainer container = container(url, queue, (MessageListener) message -> {
            try {
                texts.add(Probe.text(message));
            } catch (Exception error) {
                texts.add(error.toString());
            }
            all.countDown();
        }, concurrency);
        CachingConnectionFactory cached = new CachingConnectionFactory(factory(url));
        JmsTemplate template = new JmsTemplate(cached);
        for (int i = 0; i < count; i++) {
            template.convertAndSend(queue, "m" + i);
        }
        boolean complete = all.await(20, TimeUnit.SECONDS);
        container.shutdown();
        cached.destroy();
        return Probe.map("complete", complete, "calls", texts.size(), "distinct", new TreeSet<>(texts).size(),
                "left", Probe.connected(url, c -> Probe.left(c, queue)));
    }

    private static Object failing(String url, String queue) throws Exception {
        List<String> deliveries = Collections.synchronizedList(new ArrayList<>());
        DefaultMessageListenerContainer container = container(url, queue, (MessageListener) message -> {
            try {
                deliveries.add(Probe.delivery(message));
            } catch (Exception error) {
                deliveries.add(error.toString());
            }
            throw new IllegalStateException("always");
        }, "1");
        new JmsTemplate(factory(url)).send(queue, session -> {
            javax.jms.Message message = session.createTextMessage("bad");
            message.setJMSCorrelationID(queue);
            return message;
        });
        Object dead = Probe.connected(url, (Connection c) -> Probe.dead(c, queue));
        container.shutdown();
        return Probe.map("deliveries", new ArrayList<>(deliveries), "dead", dead);
    }

    private static Object template(String url, String queue) {
        JmsTemplate template = new JmsTemplate(factory(url));
        template.setReceiveTimeout(Probe.PATIENCE);
        template.convertAndSend(queue, "text");
        template.convertAndSend(queue, new byte[] {1, 2});
        template.convertAndSend(queue, Collections.singletonMap("key", 7));
        List<Object> found = new ArrayList<>();
        found.add(template.receiveAndConvert(queue));
        found.add(Arrays.toString((byte[]) template.receiveAndConvert(queue)));
        found.add(template.receiveAndConvert(queue));
        template.setReceiveTimeout(50);
        found.add(template.receiveAndConvert(queue));
        return found;
    }

    private static Object reply(String url, String queue) throws Exception {
        DefaultMessageListenerContainer container = container(url, queue,
                (SessionAwareMessageListener<javax.jms.Message>) (request, session) -> {
                    javax.jms.MessageProducer producer = session.createProducer(request.getJMSReplyTo());
                    producer.send(session.createTextMessage("re: " + Probe.text(request)));
                    producer.close();
                }, "1-3");
        JmsTemplate template = new JmsTemplate(factory(url));
        template.setReceiveTimeout(Probe.PATIENCE);
        List<String> replies = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            String text = "q" + i;
            replies.add(Probe.text(template.sendAndReceive(queue, (Session session) -> session.createTextMessage(text))));
        }
        container.shutdown();
        return replies;
    }

    private SpringContainers() {
    }
}
