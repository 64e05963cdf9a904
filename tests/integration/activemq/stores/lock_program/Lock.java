import java.io.File;
import org.apache.activemq.store.SharedFileLocker;

/** ActiveMQ's own locker: takes the lock of a folder for each line it reads, and gives it up. */
public final class Lock {
    public static void main(String[] arguments) throws Exception {
        while (System.in.read() >= 0) {
            SharedFileLocker locker = new SharedFileLocker();
            locker.setDirectory(new File(arguments[0]));
            locker.setFailIfLocked(true);
            try {
                locker.start();
            } catch (Exception refused) {
                System.out.println("refused");
                continue;
            }
            System.out.println("locked");
            System.in.read();
            System.out.println("alive " + locker.keepAlive());
            locker.stop();
            System.out.println("released");
        }
    }
}
