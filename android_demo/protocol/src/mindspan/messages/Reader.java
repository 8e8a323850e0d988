package mindspan.messages;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Takes fields off the front of a message and refuses to run past its end. */
public final class Reader {
  private static final int MOST_TEXT_BYTES = 64;

  private final ByteBuffer bytes;
  private final String what;

  public Reader(byte[] bytes, String what) {
    this.bytes = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    this.what = what;
  }

  public byte[] take(int size) throws Malformed {
    byte[] taken = new byte[need(size)];
    bytes.get(taken);
    return taken;
  }

  public int u8() throws Malformed {
    need(1);
    return bytes.get() & 0xff;
  }

  public int u16() throws Malformed {
    need(2);
    return bytes.getShort() & 0xffff;
  }

  public long u32() throws Malformed {
    need(4);
    return bytes.getInt() & 0xffffffffL;
  }

  /** A number that must stay below 2^63: nothing in the protocol is larger. */
  public long u64() throws Malformed {
    need(8);
    long value = bytes.getLong();
    if (value < 0) {
      throw new Malformed(what + ": a number is out of range");
    }
    return value;
  }

  public double f64() throws Malformed {
    need(8);
    double value = bytes.getDouble();
    if (!Double.isFinite(value)) {
      throw new Malformed(what + ": a number is not finite");
    }
    return value;
  }

  /** At most so many bytes after a length of four. */
  public byte[] sized(int most) throws Malformed {
    long size = u32();
    if (size > most) {
      throw new Malformed(what + ": " + size + " bytes where at most " + most + " are allowed");
    }
    return take((int) size);
  }

  public String text() throws Malformed {
    byte[] utf8 = sized(MOST_TEXT_BYTES);
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(utf8)).toString();
    } catch (CharacterCodingException e) {
      throw new Malformed(what + ": text is not UTF-8");
    }
  }

  /** Messages of one kind after a count of two bytes. */
  public <T> List<T> list(int most, Item<T> item) throws Malformed {
    int count = u16();
    if (count > most) {
      throw new Malformed(what + ": " + count + " items where at most " + most + " are allowed");
    }
    List<T> items = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      items.add(item.read(this));
    }
    return items;
  }

  public int left() {
    return bytes.remaining();
  }

  public void done() throws Malformed {
    if (left() > 0) {
      throw new Malformed(what + ": " + left() + " bytes after the end");
    }
  }

  /** How one item of a list is read. */
  public interface Item<T> {
    T read(Reader reader) throws Malformed;
  }

  private int need(int size) throws Malformed {
    if (size > left()) {
      throw new Malformed(
          what + ": " + size + " bytes wanted at byte " + bytes.position() + ", " + left()
              + " are left");
    }
    return size;
  }
}
