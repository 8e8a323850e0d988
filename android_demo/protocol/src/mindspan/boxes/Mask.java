package mindspan.boxes;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.GeneralSecurityException;
import javax.crypto.Cipher;
import javax.crypto.spec.IvParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/** Masks: AES-128-CTR over zeros, as words of the ring Z mod 2^B. */
public final class Mask {
  private static final byte[] ZEROS = new byte[1 << 16];

  private Mask() {}

  /** The words of a key's stream, each below 2^bits. */
  public static long[] expand(byte[] key, int count, int bits) {
    long[] words = new long[count];
    add(words, key, 1, bits);
    reduce(words, bits);
    return words;
  }

  /** words += sign * mask, modulo 2^64; {@link #reduce} cuts at the end. */
  public static void add(long[] words, byte[] key, int sign, int bits) {
    int size = bits <= 32 ? 4 : 8;
    Cipher stream = start(key);
    for (int at = 0; at < words.length; ) {
      int count = Math.min(words.length - at, ZEROS.length / size);
      byte[] bytes = stream.update(ZEROS, 0, count * size);
      ByteBuffer mask = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
      for (int i = 0; i < count; i++, at++) {
        words[at] += sign * (size == 4 ? mask.getInt() & 0xffffffffL : mask.getLong());
      }
    }
  }

  /** words mod 2^bits, in place. */
  public static void reduce(long[] words, int bits) {
    long low = bits == 64 ? -1 : (1L << bits) - 1;
    for (int i = 0; i < words.length; i++) {
      words[i] &= low;
    }
  }

  /** The lower id of a pair adds the mask, the higher one subtracts it. */
  public static int sign(long client, long other) {
    return client < other ? 1 : -1;
  }

  private static Cipher start(byte[] key) {
    try {
      Cipher cipher = Cipher.getInstance("AES/CTR/NoPadding");
      SecretKeySpec aes = new SecretKeySpec(key, "AES");
      cipher.init(Cipher.ENCRYPT_MODE, aes, new IvParameterSpec(new byte[16]));
      return cipher;
    } catch (GeneralSecurityException e) {
      throw new IllegalStateException(e);
    }
  }
}
