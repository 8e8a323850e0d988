package mindspan.boxes;

/** The 16-byte keys of masks, of the checksum and of rounding. */
public final class Keys {
  private static final int SIZE = 16;

  private Keys() {}

  /** The key of the mask that two clients share. */
  public static byte[] ofPair(byte[] shared, byte[] session, long a, long b, int bits) {
    return Hashes.hkdf(shared, session, pairInfo(Labels.MASK_KEY, a, b, use(bits)), SIZE);
  }

  /** The key of a client's own mask, from its secret b. */
  public static byte[] ofSelf(byte[] b, byte[] session, long client, int bits) {
    return Hashes.hkdf(b, session, pairInfo(Labels.SELF_KEY, client, client, use(bits)), SIZE);
  }

  static byte[] ofChecksum(byte[] session) {
    return Hashes.hkdf(session, session, Labels.CHECKSUM_KEY, SIZE);
  }

  static byte[] ofRounding(byte[] seed) {
    return Hashes.hkdf(seed, new byte[32], Labels.ROUNDING_KEY, SIZE);
  }

  /** Role, zero byte, lower id, higher id, and what the key is for. */
  static byte[] pairInfo(byte[] role, long a, long b, byte[] tail) {
    byte[] low = Bytes.u32(Math.min(a, b));
    byte[] high = Bytes.u32(Math.max(a, b));
    return Bytes.join(role, new byte[1], low, high, tail);
  }

  private static byte[] use(int bits) {
    return Bytes.join(Labels.VECTOR_NAME, new byte[] {(byte) bits});
  }
}
