package mindspan;

import static mindspan.Checks.same;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import mindspan.Checks.Check;
import mindspan.boxes.Bytes;
import mindspan.boxes.Update;
import mindspan.client.Advertised;
import mindspan.client.Agreed;
import mindspan.client.Masked;
import mindspan.client.Memory;
import mindspan.client.Policy;
import mindspan.client.Refused;
import mindspan.client.Refused.Kind;
import mindspan.client.Shared;
import mindspan.messages.Advert;
import mindspan.messages.Certificate;
import mindspan.messages.Cohort;
import mindspan.messages.Context;
import mindspan.messages.Encoding;
import mindspan.messages.Malformed;
import mindspan.messages.Params;
import mindspan.messages.Revocations;
import mindspan.messages.Writer;

/** A server that lies to a client of the round with drop-outs, one attack a check. */
final class RefusalChecks {
  private final Played played;
  private final String me;

  RefusalChecks(Path golden) throws IOException {
    played = new Played(golden, "round_with_drop_outs.json");
    me = played.clients().iterator().next();
  }

  void addTo(Map<String, Check> checks) {
    checks.put("a cohort below the floor is refused", this::smallCohort);
    checks.put("a lowered threshold is refused", () -> params(Kind.ThresholdTooLow, 4, 0, 1));
    checks.put("a larger ring is refused", () -> params(Kind.EncodingMismatch, 5, 1, 1));
    checks.put("another generator is refused", () -> params(Kind.EncodingMismatch, 5, 0, 2));
    checks.put("a swapped key of one's own is refused", () -> swapped(0, Kind.SwappedKey));
    checks.put("a swapped key of another is refused", () -> swapped(3, Kind.BadSignature));
    checks.put("one key in two adverts is refused", this::twinKeys);
    checks.put("a key that is not canonical is refused", this::secondForm);
    checks.put("a certificate out of its time is refused", this::outOfTime);
    checks.put("a forged certificate is refused", this::forgedCertificate);
    checks.put("a forged revocation list is refused", this::forgedRevocations);
    checks.put("an older revocation list is refused", this::oldRevocations);
    checks.put("another model is refused", this::otherModel);
    checks.put("a session of another round is refused", this::otherRound);
    checks.put("a round that is not above the last one is refused", this::staleRound);
    checks.put("an offer with a looser clip, none, or noise to add is declined", this::looseOffer);
    checks.put("every cut of a cohort is malformed", this::cuts);
    checks.put("a stage that was answered is not answered for other bytes", this::replayed);
    checks.put("too few shares are refused before the vector leaves", this::fewShares);
    checks.put("an update that is not finite never leaves", this::notFinite);
    checks.put("a second vector of one model never leaves", this::spent);
    checks.put("a survivor list without the client is refused", this::leftOut);
    checks.put("a survivor list below the threshold is refused", this::fewSurvivors);
    checks.put("a survivor list with too few signatures is refused", this::splitView);
    checks.put("a round that was given up is not gone on with", this::erased);
  }

  private void smallCohort() throws Exception {
    Policy strict = new Policy(9, 1000, 100, 1_000_000, 60);
    Advertised joined = played.join(me, strict, new Played.Kept());
    refused(Kind.CohortTooSmall, () -> joined.receiveCohort(played.cohort(), played.nowS));
  }

  private void params(Kind kind, int threshold, int moreBits, int prg) throws Exception {
    Cohort cohort = cohort();
    Params p = cohort.params();
    Params changed =
        new Params(
            p.clients(), p.neighbours(), threshold, p.ringBits() + moreBits, prg, p.encoding());
    refuses(kind, with(cohort.context(), changed, cohort.adverts(), cohort));
  }

  private void swapped(int place, Kind kind) throws Exception {
    Advert old = cohort().adverts().get(place);
    byte[] other = new byte[32];
    other[0] = 9;
    adverts(kind, place, other, old.maskKey());
  }

  private void twinKeys() throws Exception {
    byte[] stolen = cohort().adverts().get(2).maskKey();
    adverts(Kind.KeysNotDistinct, 4, stolen, cohort().adverts().get(4).maskKey());
  }

  private void secondForm() throws Exception {
    byte[] high = cohort().adverts().get(4).maskKey().clone();
    high[31] |= (byte) 0x80;
    adverts(Kind.BadKey, 4, cohort().adverts().get(4).shareKey(), high);
  }

  private void adverts(Kind kind, int place, byte[] shareKey, byte[] maskKey) throws Exception {
    Cohort cohort = cohort();
    List<Advert> adverts = new ArrayList<>(cohort.adverts());
    Advert old = adverts.get(place);
    adverts.set(place, new Advert(old.client(), shareKey, maskKey, old.nonce(), old.signature()));
    refuses(kind, with(cohort.context(), cohort.params(), adverts, cohort));
  }

  private void outOfTime() throws Exception {
    Advertised joined = played.join(me);
    refused(Kind.BadCertificate, () -> joined.receiveCohort(played.cohort(), 3_000_000));
  }

  private void forgedCertificate() throws Exception {
    Cohort cohort = cohort();
    List<Certificate> certificates = new ArrayList<>(cohort.certificates());
    Certificate c = certificates.get(1);
    byte[] signature = c.signature().clone();
    signature[5] ^= 1;
    certificates.set(
        1,
        new Certificate(
            c.serial(), c.client(), c.publicKey(), c.notBefore(), c.notAfter(), c.tenant(),
            c.population(), signature));
    Cohort forged =
        new Cohort(
            cohort.context(), cohort.serverNonce(), cohort.params(), cohort.adverts(),
            certificates, cohort.revocations());
    refuses(Kind.BadCertificate, bytes(forged));
  }

  private void forgedRevocations() throws Exception {
    Cohort cohort = cohort();
    Revocations none = new Revocations(9, List.of(), new byte[64]);
    Cohort forged =
        new Cohort(
            cohort.context(), cohort.serverNonce(), cohort.params(), cohort.adverts(),
            cohort.certificates(), none);
    refuses(Kind.BadCertificate, bytes(forged));
  }

  private void oldRevocations() throws Exception {
    Memory memory = new Played.Kept();
    memory.keepRevocationNumber(2);
    Advertised joined = played.join(me, Played.LAX, memory);
    refused(Kind.BadCertificate, () -> joined.receiveCohort(played.cohort(), played.nowS));
  }

  private void otherModel() throws Exception {
    Context c = cohort().context();
    Context other = new Context(c.tenant(), c.population(), c.task(), c.round(), new byte[32]);
    refuses(Kind.ModelMismatch, with(other, cohort().params(), cohort().adverts(), cohort()));
  }

  private void otherRound() throws Exception {
    Context c = cohort().context();
    Context later = new Context(c.tenant(), c.population(), c.task(), c.round() + 1, c.model());
    refuses(Kind.StaleRound, with(later, cohort().params(), cohort().adverts(), cohort()));
  }

  private void staleRound() throws Exception {
    Memory memory = new Played.Kept();
    played.join(me, Played.LAX, memory);
    refused(Kind.StaleRound, () -> played.join(me, Played.LAX, memory));
  }

  private void looseOffer() throws Exception {
    Policy policy = new Policy(20);
    Encoding loose = new Encoding(4, 16, 1, 1e6, 1, 8, 0);
    refused(Kind.EncodingMismatch, () -> policy.checkOffer(20, loose));
    Encoding empty = new Encoding(4, 16, 1, 1, 0, 8, 0);
    refused(Kind.EncodingMismatch, () -> policy.checkOffer(20, empty));
    Encoding noisy = new Encoding(4, 16, 1, 1, 1, 8, 4);
    refused(Kind.EncodingMismatch, () -> policy.checkOffer(20, noisy));
    Encoding fine = new Encoding(4, 16, 1, 1, 1, 8, 0);
    refused(Kind.CohortTooSmall, () -> policy.checkOffer(19, fine));
    policy.checkOffer(20, fine);
  }

  private void cuts() throws Exception {
    byte[] whole = played.cohort();
    for (int size = 0; size < whole.length; size += 7) {
      byte[] cut = Arrays.copyOf(whole, size);
      try {
        Cohort.parse(cut);
      } catch (Malformed wanted) {
        continue;
      }
      throw new AssertionError(size + " bytes were a cohort");
    }
  }

  private void replayed() throws Exception {
    Advertised joined = played.join(me);
    Shared first = joined.receiveCohort(played.cohort(), played.nowS);
    same(joined.receiveCohort(played.cohort(), played.nowS) == first, true);
    byte[] other = played.cohort();
    other[other.length - 1] ^= 1;
    refused(Kind.StageReplayed, () -> joined.receiveCohort(other, played.nowS));
    Masked masked = first.receiveShares(boxes(), played.update(me));
    same(first.receiveShares(boxes(), played.update(me)) == masked, true);
    refused(Kind.StageReplayed, () -> first.receiveShares(new byte[9], played.update(me)));
  }

  private void fewShares() throws Exception {
    Shared shared = played.join(me).receiveCohort(played.cohort(), played.nowS);
    byte[] boxes = boxes();
    for (int i = 0; i < 3; i++) {
      boxes[5 + 114 * i + 20] ^= 1; // of six boxes three open, and five are needed
    }
    refused(Kind.TooFewShares, () -> shared.receiveShares(boxes, played.update(me)));
  }

  private void notFinite() throws Exception {
    Shared shared = played.join(me).receiveCohort(played.cohort(), played.nowS);
    Update bad = new Update(new float[] {1, Float.NaN, 0, 0}, 1, 0, 0, 0);
    try {
      shared.receiveShares(boxes(), bad);
    } catch (IllegalArgumentException wanted) {
      return;
    }
    throw new AssertionError("NaN was encoded");
  }

  private void spent() throws Exception {
    Memory memory = new Played.Kept();
    Shared shared =
        played.join(me, Played.LAX, memory).receiveCohort(played.cohort(), played.nowS);
    shared.receiveShares(boxes(), played.update(me));
    Context c = played.context();
    refused(Kind.SpentUpdate, () -> memory.checkNew(c.task(), c.round() + 1, c.model()));
    refused(Kind.SpentUpdate, () -> memory.spend(c.task(), c.model(), new byte[32]));
    memory.checkNew(c.task(), c.round() + 1, new byte[32]);
  }

  private void leftOut() throws Exception {
    refused(Kind.NotASurvivor, () -> masked().receiveSurvivors(new byte[] {(byte) 0xda}));
  }

  private void fewSurvivors() throws Exception {
    refused(Kind.TooFewSurvivors, () -> masked().receiveSurvivors(new byte[] {0x1b}));
    // 0x04 is the client that never shared.
    refused(Kind.TooFewSurvivors, () -> masked().receiveSurvivors(new byte[] {(byte) 0xdf}));
  }

  private void splitView() throws Exception {
    Agreed agreed = masked().receiveSurvivors(played.round.hex("survivors"));
    byte[] all = played.round.hex("agreements");
    byte[] once = Arrays.copyOf(all, 68 * 5);
    refused(Kind.SplitView, () -> agreed.receiveAgreements(once));
    byte[] padded = Bytes.join(once, Arrays.copyOfRange(all, 68, 136));
    refused(Kind.SplitView, () -> agreed.receiveAgreements(padded));
    agreed.receiveAgreements(all);
  }

  private void erased() throws Exception {
    Agreed agreed = masked().receiveSurvivors(played.round.hex("survivors"));
    agreed.abort();
    byte[] agreements = played.round.hex("agreements");
    refused(Kind.GivenUp, () -> agreed.receiveAgreements(agreements));
    Shared shared = played.join(me).receiveCohort(played.cohort(), played.nowS);
    shared.abort();
    refused(Kind.GivenUp, () -> shared.receiveShares(boxes(), played.update(me)));
  }

  private Masked masked() throws Exception {
    Shared shared = played.join(me).receiveCohort(played.cohort(), played.nowS);
    return shared.receiveShares(boxes(), played.update(me));
  }

  private byte[] boxes() {
    return played.client(me).hex("boxes");
  }

  private Cohort cohort() throws Malformed {
    return Cohort.parse(played.cohort());
  }

  private void refuses(Kind kind, byte[] cohort) throws Exception {
    Advertised joined = played.join(me);
    refused(kind, () -> joined.receiveCohort(cohort, played.nowS));
  }

  private static void refused(Kind kind, Check check) throws Exception {
    try {
      check.run();
    } catch (Refused refused) {
      same(refused.kind, kind);
      return;
    }
    throw new AssertionError("not refused: " + kind);
  }

  private static byte[] with(Context context, Params params, List<Advert> adverts, Cohort rest) {
    return bytes(
        new Cohort(
            context, rest.serverNonce(), params, adverts, rest.certificates(),
            rest.revocations()));
  }

  private static byte[] bytes(Cohort cohort) {
    Context c = cohort.context();
    Writer out = new Writer().text(c.tenant()).text(c.population()).text(c.task());
    out.u64(c.round()).put(c.model()).put(cohort.serverNonce()).put(cohort.params().bytes());
    out.u16(cohort.adverts().size());
    cohort.adverts().forEach(advert -> out.put(advert.bytes()));
    out.u16(cohort.certificates().size());
    cohort.certificates().forEach(certificate -> out.put(certificate.bytes()));
    Revocations r = cohort.revocations();
    out.u64(r.number()).u16(r.serials().size());
    r.serials().forEach(out::u64);
    return out.put(r.signature()).bytes();
  }
}
