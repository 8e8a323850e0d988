package mindspan.messages;

/**
 * How an update becomes integers: 41 bytes, the same for every cohort of a task.
 *
 * @param noise the deviation of what each client adds to every coordinate; this client adds none,
 *     and declines rounds in which it is not 0
 */
public record Encoding(
    long length,
    int valueBits,
    long maxWeight,
    double clipNorm,
    double clipValue,
    double lossCap,
    long noise) {
  /** Weight, loss, correct, examples, within clip, saturated, checksum. */
  private static final int EXTRAS = 7;

  public static Encoding read(Reader in) throws Malformed {
    return new Encoding(in.u64(), in.u8(), in.u32(), in.f64(), in.f64(), in.f64(), in.u32());
  }

  public byte[] bytes() {
    Writer out = new Writer().u64(length).u8(valueBits).u32(maxWeight);
    return out.f64(clipNorm).f64(clipValue).f64(lossCap).u32(noise).bytes();
  }

  /** 2^b - 1, the largest integer of one coordinate before weighting. */
  public long top() {
    return (1L << valueBits) - 1;
  }

  /** Words on the wire. */
  public int totalLength() {
    return Math.toIntExact(length + EXTRAS);
  }
}
