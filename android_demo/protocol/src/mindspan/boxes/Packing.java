package mindspan.boxes;

/** Words of B bits to bytes without gaps, and back: word 0 fills the lowest bits of byte 0. */
public final class Packing {
  private Packing() {}

  public static int size(long count, int bits) {
    return Math.toIntExact((count * bits + 7) / 8);
  }

  /** Each word's lowest bits, one after another. */
  public static byte[] pack(long[] words, int bits) {
    byte[] bytes = new byte[size(words.length, bits)];
    long at = 0;
    for (long word : words) {
      for (int done = 0; done < bits; ) {
        int place = (int) (at & 7);
        int take = Math.min(8 - place, bits - done);
        long piece = word >>> done & (1L << take) - 1;
        bytes[(int) (at >>> 3)] |= (byte) (piece << place);
        done += take;
        at += take;
      }
    }
    return bytes;
  }

  /** The words of bytes that {@link #pack} made. */
  public static long[] unpack(byte[] bytes, int count, int bits) {
    if (bytes.length != size(count, bits)) {
      throw new IllegalArgumentException(bytes.length + " bytes for " + count + " words");
    }
    long[] words = new long[count];
    long at = 0;
    for (int i = 0; i < count; i++) {
      for (int done = 0; done < bits; ) {
        int place = (int) (at & 7);
        int take = Math.min(8 - place, bits - done);
        long piece = (bytes[(int) (at >>> 3)] & 0xff) >>> place & (1L << take) - 1;
        words[i] |= piece << done;
        done += take;
        at += take;
      }
    }
    return words;
  }
}
