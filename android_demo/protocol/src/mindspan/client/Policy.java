package mindspan.client;

import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Set;
import mindspan.client.Refused.Kind;
import mindspan.messages.Advert;
import mindspan.messages.Certificate;
import mindspan.messages.Cohort;
import mindspan.messages.Context;
import mindspan.messages.Encoding;
import mindspan.messages.Malformed;
import mindspan.messages.Params;

/**
 * What a client takes part in, whatever a server asks for.
 *
 * @param cohortFloor fewest clients in a cohort, and fewest that shared; below 20 is for tests
 * @param sparseBits how unlikely, as a power of 1/2, it must be that colluders can undo a client
 *     on a sparse graph; below 60 is for tests
 */
public record Policy(
    int cohortFloor, double clipNorm, double clipValue, long maxWeight, double sparseBits) {
  public static final int COHORT_FLOOR = 20;
  private static final double SPARSE_BITS = 60;

  public Policy {
    if (cohortFloor < 2) {
      throw new IllegalArgumentException("a floor of " + cohortFloor + " hides nobody");
    }
  }

  public Policy(int cohortFloor) {
    this(cohortFloor, 100, 100, 1_000_000, SPARSE_BITS);
  }

  /** Nothing, if a round that may begin with so few, and encodes updates so, suits. */
  public void checkOffer(int minCohort, Encoding encoding) throws Refused {
    if (!within(encoding.clipNorm(), clipNorm)
        || !within(encoding.clipValue(), clipValue)
        || !within(encoding.maxWeight(), maxWeight)) {
      throw new Refused(Kind.EncodingMismatch, "the offered clip or weight is beyond the limits");
    }
    if (encoding.noise() != 0) {
      throw new Refused(Kind.EncodingMismatch, "noise is asked for, which this client adds none of");
    }
    if (minCohort < cohortFloor) {
      throw tooSmall(minCohort + " clients may be a cohort");
    }
  }

  /** The session, if nothing in the cohort breaks a rule. */
  Session checkCohort(
      Cohort cohort, Advert mine, Client client, long nowS) throws Malformed, Refused {
    checkContext(cohort.context(), client.context());
    if (cohort.adverts().size() < cohortFloor) {
      throw tooSmall(cohort.adverts().size() + " clients in the cohort");
    }
    checkParams(cohort.params(), client.encoding());
    Session session = new Session(cohort);
    Advert shown = session.advert(mine.client());
    if (shown == null || !Arrays.equals(shown.bytes(), mine.bytes())) {
      throw new Refused(Kind.SwappedKey, "the cohort does not hold this client's own keys");
    }
    checkMembers(cohort, client, nowS);
    return session;
  }

  /** Nothing, if a client may sign the survivor list. */
  static void checkSurvivors(Session session, long me, Set<Long> shared, Set<Long> survivors)
      throws Refused {
    if (!survivors.contains(me)) {
      throw new Refused(Kind.NotASurvivor, "the survivor list leaves this client out");
    }
    if (!shared.containsAll(survivors)) {
      throw new Refused(Kind.TooFewSurvivors, "the list names clients that never shared");
    }
    Set<Long> near = new HashSet<>(session.neighbours(me));
    near.retainAll(survivors);
    if (near.size() < session.params.threshold() || survivors.size() < session.params.quorum()) {
      throw new Refused(
          Kind.TooFewSurvivors, survivors.size() + " survivors, " + near.size() + " neighbours");
    }
  }

  Refused tooSmall(String what) {
    return new Refused(Kind.CohortTooSmall, what + ", the floor is " + cohortFloor);
  }

  private static boolean within(double asked, double limit) {
    return asked > 0 && asked <= limit;
  }

  private static void checkContext(Context context, Context expected) throws Refused {
    if (!Arrays.equals(context.model(), expected.model())) {
      throw new Refused(Kind.ModelMismatch, "the session is about another model");
    }
    if (context.round() != expected.round()) {
      throw new Refused(Kind.StaleRound, "the session is of round " + context.round());
    }
    if (!context.sameAs(expected)) {
      throw new Refused(Kind.ModelMismatch, "another tenant, population or task");
    }
  }

  private void checkParams(Params params, Encoding encoding) throws Malformed, Refused {
    Session.checkGraph(params);
    int k = params.neighbours();
    int t = params.threshold();
    boolean safe =
        params.isComplete()
            ? t >= Params.leastThreshold(k)
            : Graph.securityBits(params.clients(), k, t) >= sparseBits - 1e-6;
    if (!safe) {
      throw new Refused(Kind.ThresholdTooLow, "threshold " + t + " of " + k + " neighbours");
    }
    boolean mine = params.encoding().equals(encoding) && params.prg() == Params.PRG_AES128_CTR;
    int bits = Params.leastRingBits(params.clients(), encoding);
    if (!mine || params.ringBits() != bits || bits > 64) {
      throw new Refused(Kind.EncodingMismatch, "not what the update was prepared for");
    }
  }

  private static void checkMembers(Cohort cohort, Client client, long nowS) throws Refused {
    byte[] authority = client.member().authority();
    Memory memory = client.memory();
    if (!cohort.revocations().isSignedBy(authority)) {
      throw new Refused(Kind.BadCertificate, "the revocation list is forged");
    }
    if (cohort.revocations().number() < memory.revocationNumber()) {
      throw new Refused(Kind.BadCertificate, "the revocation list is older than one seen before");
    }
    memory.keepRevocationNumber(cohort.revocations().number());
    Set<Long> revoked = new HashSet<>(cohort.revocations().serials());
    Set<String> identities = new HashSet<>();
    for (int i = 0; i < cohort.adverts().size(); i++) {
      Certificate certificate = cohort.certificates().get(i);
      String fault = fault(certificate, authority, cohort.context(), nowS, revoked);
      if (fault != null || !identities.add(HexFormat.of().formatHex(certificate.publicKey()))) {
        String why = fault == null ? "one identity under two names" : fault;
        throw new Refused(Kind.BadCertificate, "client " + certificate.client() + ": " + why);
      }
      if (!cohort.adverts().get(i).isSignedBy(certificate.publicKey(), cohort.context())) {
        throw new Refused(Kind.BadSignature, "advert of client " + certificate.client());
      }
    }
  }

  /** Why a certificate does not count, or null. */
  public static String fault(
      Certificate certificate, byte[] authority, Context context, long nowS, Set<Long> revoked) {
    if (!certificate.isSignedBy(authority)) {
      return "the certificate is not the authority's";
    }
    if (nowS < certificate.notBefore() || nowS > certificate.notAfter()) {
      return "the certificate is not valid at this time";
    }
    if (revoked.contains(certificate.serial())) {
      return "the certificate is revoked";
    }
    boolean here = certificate.tenant().equals(context.tenant())
        && certificate.population().equals(context.population());
    return here ? null : "the certificate is of another tenant or population";
  }
}
