// Exercises the parts of a JVM that allocate with malloc, and checks the results.
import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.HashMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.zip.Deflater;
import java.util.zip.Inflater;

public class Native {
    static int deflateRounds(int from, int to) throws Exception {
        int good = 0;
        for (int i = from; i < to; i++) {
            byte[] text = ("line " + i + " ").repeat(500).getBytes();
            byte[] packed = new byte[text.length + 100];
            byte[] back = new byte[text.length];
            Deflater deflater = new Deflater(1 + i % 9);  // each holds some 260 KiB of native memory until end()
            deflater.setInput(text);
            deflater.finish();
            int length = deflater.deflate(packed);
            deflater.end();
            Inflater inflater = new Inflater();
            inflater.setInput(packed, 0, length);
            inflater.inflate(back);
            inflater.end();
            if (!Arrays.equals(text, back)) throw new IllegalStateException("text " + i + " did not survive");
            good++;
        }
        return good;
    }

    static int directBuffers(int count) {
        ArrayDeque<ByteBuffer> live = new ArrayDeque<>();
        int good = 0;
        for (int i = 0; i < count; i++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(16 + (i * 131) % 20000);
            if (buffer.get(buffer.capacity() - 1) != 0) throw new IllegalStateException("a direct buffer is not zeroed");
            buffer.putInt(0, i);
            buffer.put(buffer.capacity() - 1, (byte) i);
            live.add(buffer);
            if (live.size() > 4000) good += check(live.remove());
        }
        while (!live.isEmpty()) good += check(live.remove());
        return good;
    }

    static int check(ByteBuffer buffer) {
        if (buffer.get(buffer.capacity() - 1) != (byte) buffer.getInt(0)) throw new IllegalStateException("damaged");
        return 1;
    }

    public static void main(String[] arguments) throws Exception {
        int buffers = directBuffers(40_000);

        AtomicInteger deflated = new AtomicInteger();
        AtomicInteger threads = new AtomicInteger();
        for (int round = 0; round < 100; round++) {
            Thread[] some = new Thread[4];
            for (int t = 0; t < some.length; t++) {
                int from = (round * some.length + t) * 2;
                some[t] = new Thread(() -> {
                    try {
                        deflated.addAndGet(deflateRounds(from, from + 2));
                        threads.incrementAndGet();
                    } catch (Exception problem) {
                        problem.printStackTrace();
                    }
                });
                some[t].start();
            }
            for (Thread one : some) one.join();
        }

        HashMap<String, Integer> strings = new HashMap<>();
        for (int i = 0; i < 1_000_000; i++) strings.put(("key" + i).intern(), i);  // the table of interned strings is native
        for (int i = 0; i < 1_000_000; i += 997) if (strings.get("key" + i) != i) throw new IllegalStateException();

        System.out.println("buffers " + buffers + " deflated " + deflated + " threads " + threads + " strings " + strings.size());
    }
}
