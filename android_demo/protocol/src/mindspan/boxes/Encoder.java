package mindspan.boxes;

import mindspan.messages.Encoding;

/** An update to the integers of the ring: clipped, rounded at random, weighted, with metrics. */
public final class Encoder {
  private final Encoding encoding;
  private final int ringBits;
  private final byte[] session;

  public Encoder(Encoding encoding, int ringBits, byte[] session) {
    this.encoding = encoding;
    this.ringBits = ringBits;
    this.session = session;
  }

  /**
   * The words of one client, the checksum last.
   *
   * @param seed 32 random bytes for the rounding
   * @throws IllegalArgumentException if the update is none that can be encoded
   */
  public long[] encode(Update update, byte[] seed) {
    check(update);
    double norm = norm(update.delta());
    double scale = norm > 0 ? Math.min(1.0, encoding.clipNorm() / norm) : 1.0;
    long[] words = new long[encoding.totalLength()];
    int length = (int) encoding.length();
    long saturated = quantise(update, scale, seed, words);
    double top = encoding.top();
    double loss = Math.min(Math.max(update.loss(), 0), encoding.lossCap()) / encoding.lossCap();
    words[length] = update.weight();
    words[length + 1] = (long) Math.rint(loss * top) * update.weight();
    words[length + 2] = Math.min(update.correct(), encoding.top());
    words[length + 3] = Math.min(update.examples(), encoding.top());
    words[length + 4] = norm <= encoding.clipNorm() ? 1 : 0;
    words[length + 5] = Math.min(saturated, encoding.top());
    words[length + 6] = checksum(words, length + 6);
    return words;
  }

  /** The sum of r_l * u_l mod 2^B over the first words, r being of the session. */
  public long checksum(long[] words, int count) {
    long[] r = Mask.expand(Keys.ofChecksum(session), count, ringBits);
    long[] sum = new long[1];
    for (int i = 0; i < count; i++) {
      sum[0] += r[i] * words[i];
    }
    Mask.reduce(sum, ringBits);
    return sum[0];
  }

  private void check(Update update) {
    if (update.delta().length != encoding.length()) {
      throw new IllegalArgumentException(
          update.delta().length + " coordinates, wanted " + encoding.length());
    }
    if (update.weight() < 1 || update.weight() > encoding.maxWeight()) {
      throw new IllegalArgumentException(
          "weight is " + update.weight() + ", wanted 1 to " + encoding.maxWeight());
    }
    if (update.correct() < 0 || update.examples() < 0) {
      throw new IllegalArgumentException("counts are below zero");
    }
    boolean finite = Double.isFinite(update.loss());
    for (float x : update.delta()) {
      finite &= Float.isFinite(x);
    }
    if (!finite) {
      throw new IllegalArgumentException("update or loss has values that are not finite");
    }
  }

  /** Writes the weighted integers; how many coordinates were clamped comes out. */
  private long quantise(Update update, double scale, byte[] seed, long[] words) {
    float[] delta = update.delta();
    long[] chance = Mask.expand(Keys.ofRounding(seed), delta.length, 32);
    double step = scale / encoding.clipValue();
    long saturated = 0;
    for (int i = 0; i < delta.length; i++) {
      double x = delta[i] * step;
      saturated += Math.abs(x) > 1 ? 1 : 0;
      x = Math.max(-1, Math.min(1, x));
      // Multiples of 2^-32 in [0, 1): adding one and cutting rounds up as often as it should.
      double y = (x + 1) * (0.5 * encoding.top()) + chance[i] * 0x1p-32;
      words[i] = (long) Math.min(y, encoding.top()) * update.weight();
    }
    return saturated;
  }

  private static double norm(float[] delta) {
    double sum = 0;
    for (float x : delta) {
      sum += (double) x * x;
    }
    return Math.sqrt(sum);
  }
}
