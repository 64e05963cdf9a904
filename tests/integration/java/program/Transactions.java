import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import javax.jms.MessageConsumer;
import javax.jms.XAConnection;
import javax.jms.XASession;
import javax.transaction.xa.XAException;
import javax.transaction.xa.XAResource;
import javax.transaction.xa.Xid;
import org.apache.activemq.ActiveMQXAConnectionFactory;

/** XA: what a transaction manager does with the client's XAResource. */
final class Transactions {
    private static final AtomicInteger NUMBERS = new AtomicInteger();

    private static final class Id implements Xid {
        private final byte[] global = ByteBuffer.allocate(12).putLong(System.nanoTime()).putInt(NUMBERS.incrementAndGet()).array();

        @Override
        public int getFormatId() {
            return 4711;
        }

        @Override
        public byte[] getGlobalTransactionId() {
            return global;
        }

        @Override
        public byte[] getBranchQualifier() {
            return new byte[] {1, 2, 3};
        }

        boolean in(Xid[] others) {
            return Arrays.stream(others).anyMatch(other -> Arrays.equals(other.getGlobalTransactionId(), global));
        }
    }

    static void register(Map<String, Probe.Scenario> scenarios) {
        scenarios.put("xa", (url, a) -> withSession(url, s -> xa(s, a.get(0))));
        scenarios.put("xa-one-phase", (url, a) -> withSession(url, s -> onePhase(s, a.get(0))));
        scenarios.put("xa-receive", (url, a) -> withSession(url, s -> receive(s, a.get(0))));
        scenarios.put("xa-errors", (url, a) -> withSession(url, Transactions::errors));
        scenarios.put("xa-takeover", (url, a) -> takeover(url, a.get(0)));
    }

    private interface Work {
        Object with(XASession session) throws Exception;
    }

    private static Object withSession(String url, Work work) throws Exception {
        XAConnection connection = new ActiveMQXAConnectionFactory(url).createXAConnection();
        try {
            connection.start();
            return work.with(connection.createXASession());
        } finally {
            connection.close();
        }
    }

    private static Id send(XASession session, String queue, String text) throws Exception {
        Id id = new Id();
        XAResource resource = session.getXAResource();
        resource.start(id, XAResource.TMNOFLAGS);
        Probe.send(session, session.createQueue(queue), text);
        resource.end(id, XAResource.TMSUCCESS);
        return id;
    }

    private static Object xa(XASession session, String queue) throws Exception {
        XAResource resource = session.getXAResource();
        Id committed = send(session, queue, "committed");
        int vote = resource.prepare(committed);
        boolean listed = committed.in(resource.recover(XAResource.TMSTARTRSCAN));
        resource.commit(committed, false);
        boolean gone = !committed.in(resource.recover(XAResource.TMSTARTRSCAN));

        Id rolledBack = send(session, queue, "rolled back");
        resource.prepare(rolledBack);
        resource.rollback(rolledBack);
        Id unprepared = send(session, queue, "unprepared");
        resource.rollback(unprepared);

        Id empty = new Id();
        resource.start(empty, XAResource.TMNOFLAGS);
        resource.end(empty, XAResource.TMSUCCESS);
        int nothing = resource.prepare(empty);
        return Probe.map("vote", vote, "listed", listed, "gone", gone, "empty", nothing);
    }

    private static Object onePhase(XASession session, String queue) throws Exception {
        Id id = send(session, queue, "one phase");
        session.getXAResource().commit(id, true);
        return null;
    }

    /** Receives in a branch that is rolled back, and again in one that is committed. */
    private static Object receive(XASession session, String queue) throws Exception {
        XAResource resource = session.getXAResource();
        MessageConsumer consumer = session.createConsumer(session.createQueue(queue));
        List<String> found = new ArrayList<>();
        for (boolean commit : new boolean[] {false, true}) {
            Id id = new Id();
            resource.start(id, XAResource.TMNOFLAGS);
            found.add(Probe.delivery(consumer.receive(Probe.PATIENCE)));
            resource.end(id, XAResource.TMSUCCESS);
            resource.prepare(id);
            if (commit) {
                resource.commit(id, false);
            } else {
                resource.rollback(id);
            }
        }
        return found;
    }

    private static Object errors(XASession session) throws Exception {
        XAResource resource = session.getXAResource();
        List<Integer> codes = new ArrayList<>();
        for (int kind = 0; kind < 3; kind++) {
            try {
                if (kind == 0) {
                    resource.commit(new Id(), false);
                } else if (kind == 1) {
                    resource.rollback(new Id());
                } else {
                    resource.prepare(new Id());
                }
                codes.add(0);
            } catch (XAException error) {
                codes.add(error.errorCode);
            }
        }
        return codes;
    }

    /** A prepared branch outlives its connection; another one recovers and commits it. */
    private static Object takeover(String url, String queue) throws Exception {
        List<Id> ids = new ArrayList<>();
        withSession(url, session -> {
            ids.add(send(session, queue, "prepared"));
            session.getXAResource().prepare(ids.get(0));
            ids.add(send(session, queue, "lost"));
            return null;
        });
        return withSession(url, session -> {
            XAResource resource = session.getXAResource();
            Xid[] prepared = resource.recover(XAResource.TMSTARTRSCAN);
            boolean first = ids.get(0).in(prepared);
            boolean second = ids.get(1).in(prepared);
            resource.commit(ids.get(0), false);
            return Arrays.asList(first, second);
        });
    }

    private Transactions() {
    }
}
