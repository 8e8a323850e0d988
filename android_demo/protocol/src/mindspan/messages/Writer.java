package mindspan.messages;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import mindspan.boxes.Bytes;

/** Puts fields one after another. */
public final class Writer {
  private final ByteArrayOutputStream out = new ByteArrayOutputStream();

  public Writer put(byte[] bytes) {
    out.writeBytes(bytes);
    return this;
  }

  public Writer u8(int value) {
    out.write(value);
    return this;
  }

  public Writer u16(int value) {
    return put(new byte[] {(byte) value, (byte) (value >>> 8)});
  }

  public Writer u32(long value) {
    return put(Bytes.u32(value));
  }

  public Writer u64(long value) {
    return put(Bytes.u64(value));
  }

  public Writer f64(double value) {
    return put(Bytes.littleEndian(8).putDouble(value).array());
  }

  public Writer sized(byte[] bytes) {
    return u32(bytes.length).put(bytes);
  }

  public Writer text(String text) {
    return sized(text.getBytes(StandardCharsets.UTF_8));
  }

  public byte[] bytes() {
    return out.toByteArray();
  }
}
