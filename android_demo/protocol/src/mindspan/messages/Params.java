package mindspan.messages;

import java.math.BigInteger;

/** N clients with k neighbours each, threshold t, a ring of B bits: 49 bytes. */
public record Params(
    int clients, int neighbours, int threshold, int ringBits, int prg, Encoding encoding) {
  public static final int PRG_AES128_CTR = 1;

  public static Params read(Reader in) throws Malformed {
    return new Params(in.u16(), in.u16(), in.u16(), in.u8(), in.u8(), Encoding.read(in));
  }

  public byte[] bytes() {
    Writer out = new Writer().u16(clients).u16(neighbours).u16(threshold);
    return out.u8(ringBits).u8(prg).put(encoding.bytes()).bytes();
  }

  public boolean isComplete() {
    return neighbours == clients - 1;
  }

  /** The least threshold with which two views of the survivors cannot unmask a client. */
  public static int leastThreshold(int neighbours) {
    return 2 * neighbours / 3 + 1;
  }

  /** How many clients must share, upload and sign. */
  public int quorum() {
    return Math.max(threshold, leastThreshold(clients - 1)) + 1;
  }

  /** The least B for which no sum of N clients can wrap. */
  public static int leastRingBits(int clients, Encoding encoding) {
    BigInteger largest = BigInteger.ONE.shiftLeft(encoding.valueBits()).subtract(BigInteger.ONE);
    BigInteger weight = BigInteger.valueOf(encoding.maxWeight());
    return largest.multiply(weight).multiply(BigInteger.valueOf(clients)).bitLength();
  }
}
