package mindspan.device;

import mindspan.messages.Context;
import mindspan.messages.Encoding;
import mindspan.messages.Malformed;
import mindspan.messages.Reader;

/**
 * A round to join: what to download, how the update will be encoded, and the cohort's size.
 *
 * @param plan what is asked beyond plain training; empty if nothing
 */
record Offer(
    Context context,
    byte[] model,
    byte[] weights,
    Encoding encoding,
    int minCohort,
    int targetCohort,
    byte[] plan) {
  private static final int MOST_PLAN = 512;

  static Offer parse(byte[] bytes) throws Malformed {
    Reader in = new Reader(bytes, "offer");
    Offer offer =
        new Offer(
            Context.read(in),
            in.take(32),
            in.take(32),
            Encoding.read(in),
            in.u16(),
            in.u16(),
            in.sized(MOST_PLAN));
    in.done();
    return offer;
  }
}
