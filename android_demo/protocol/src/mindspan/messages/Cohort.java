package mindspan.messages;

import java.util.List;

/** R0 down: everything that the session id is made of. */
public record Cohort(
    Context context,
    byte[] serverNonce,
    Params params,
    List<Advert> adverts,
    List<Certificate> certificates,
    Revocations revocations) {
  public static final int MOST_CLIENTS = 10_000;

  public static Cohort parse(byte[] bytes) throws Malformed {
    Reader in = new Reader(bytes, "cohort");
    Cohort cohort =
        new Cohort(
            Context.read(in),
            in.take(32),
            Params.read(in),
            in.list(MOST_CLIENTS, Advert::read),
            in.list(MOST_CLIENTS, Certificate::read),
            Revocations.read(in));
    in.done();
    return cohort;
  }
}
