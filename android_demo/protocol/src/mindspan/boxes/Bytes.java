package mindspan.boxes;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;

/** Bytes joined, cut and wiped; numbers as little-endian bytes. */
public final class Bytes {
  private Bytes() {}

  public static byte[] join(byte[]... parts) {
    int size = 0;
    for (byte[] part : parts) {
      size += part.length;
    }
    byte[] all = new byte[size];
    int at = 0;
    for (byte[] part : parts) {
      System.arraycopy(part, 0, all, at, part.length);
      at += part.length;
    }
    return all;
  }

  public static byte[] u32(long value) {
    return littleEndian(4).putInt((int) value).array();
  }

  public static byte[] u64(long value) {
    return littleEndian(8).putLong(value).array();
  }

  public static ByteBuffer littleEndian(int size) {
    return ByteBuffer.allocate(size).order(ByteOrder.LITTLE_ENDIAN);
  }

  /** Zeros in place of secrets; copies that the virtual machine made are out of reach. */
  public static void wipe(byte[]... secrets) {
    for (byte[] secret : secrets) {
      Arrays.fill(secret, (byte) 0);
    }
  }
}
