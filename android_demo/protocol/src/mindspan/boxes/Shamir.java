package mindspan.boxes;

import java.util.List;

/**
 * Secret sharing over GF(2^8), byte by byte, without tables or branches on secrets (Shamir 1979).
 * The field is that of AES. A share is its x and one byte for each byte of the secret.
 */
public final class Shamir {
  public static final int SECRET_SIZE = 32;
  public static final int SHARE_SIZE = SECRET_SIZE + 1;
  public static final int MOST_SHARES = 255;

  private Shamir() {}

  /**
   * Shares for x = 1..count, any threshold of which give the secret back.
   *
   * @param random 32 * (threshold - 1) bytes: the coefficients of x, x^2, ... one after another
   */
  public static byte[][] split(byte[] secret, int threshold, int count, byte[] random) {
    if (secret.length != SECRET_SIZE || random.length != SECRET_SIZE * (threshold - 1)) {
      throw new IllegalArgumentException("a secret or randomness of a wrong size");
    }
    if (threshold < 1 || threshold > count || count > MOST_SHARES) {
      throw new IllegalArgumentException("threshold " + threshold + " of " + count + " shares");
    }
    byte[][] shares = new byte[count][SHARE_SIZE];
    for (int i = 0; i < count; i++) {
      int x = i + 1;
      shares[i][0] = (byte) x;
      for (int at = 0; at < SECRET_SIZE; at++) {
        int y = 0;
        for (int power = threshold - 2; power >= 0; power--) {
          y = multiply(y ^ random[SECRET_SIZE * power + at] & 0xff, x);
        }
        shares[i][1 + at] = (byte) (y ^ secret[at]);
      }
    }
    return shares;
  }

  /** The secret that shares of distinct x, as many as the threshold, give. */
  public static byte[] combine(List<byte[]> shares) {
    byte[] secret = new byte[SECRET_SIZE];
    for (byte[] share : shares) {
      int weight = weightAtZero(share, shares);
      for (int at = 0; at < SECRET_SIZE; at++) {
        secret[at] ^= (byte) multiply(share[1 + at] & 0xff, weight);
      }
    }
    return secret;
  }

  private static int weightAtZero(byte[] share, List<byte[]> shares) {
    int x = share[0] & 0xff;
    int weight = 1;
    for (byte[] other : shares) {
      int z = other[0] & 0xff;
      if (z != x) {
        weight = multiply(weight, multiply(z, invert(z ^ x)));
      }
    }
    return weight;
  }

  /** a*b in the field: eight steps, the same whatever the values. */
  static int multiply(int a, int b) {
    int product = 0;
    for (int bit = 0; bit < 8; bit++) {
      product ^= a & -(b >>> bit & 1);
      a = a << 1 ^ 0x11b & -(a >>> 7 & 1);
    }
    return product & 0xff;
  }

  /** a^254, which is 1/a where a is not 0. */
  private static int invert(int a) {
    int out = 1;
    int power = a;
    for (int i = 0; i < 7; i++) {
      power = multiply(power, power);
      out = multiply(out, power);
    }
    return out;
  }
}
