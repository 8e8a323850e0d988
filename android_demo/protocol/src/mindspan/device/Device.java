package mindspan.device;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Set;
import mindspan.boxes.Ed25519;
import mindspan.boxes.Hashes;
import mindspan.boxes.Identity;
import mindspan.boxes.Labels;
import mindspan.boxes.Update;
import mindspan.client.Advertised;
import mindspan.client.Agreed;
import mindspan.client.Client;
import mindspan.client.Masked;
import mindspan.client.Member;
import mindspan.client.Policy;
import mindspan.client.RandomBytes;
import mindspan.client.Refused;
import mindspan.client.Refused.Kind;
import mindspan.client.Shared;
import mindspan.messages.Certificate;
import mindspan.messages.Context;
import mindspan.messages.Malformed;
import mindspan.messages.Reader;
import mindspan.messages.Writer;

/** A device: from enrolment to the reveal of each round, over one connection and one folder. */
public final class Device implements AutoCloseable {
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private final Folder folder;
  private final Journal journal;
  private final Identity identity;
  private final Http http;
  private final byte[] authority;
  private final Policy policy;
  private final RandomBytes random;
  // Rounds that were begun or declined; none is begun twice.
  private final Set<String> tried = new HashSet<>();
  private Member member;
  private String declined = "";

  public Device(
      String server, Path folder, byte[] authority, Policy policy, RandomBytes random)
      throws IOException {
    this.folder = new Folder(folder);
    this.journal = new Journal(this.folder);
    this.authority = authority.clone();
    this.policy = policy;
    this.random = random;
    byte[] seed = this.folder.read("identity.key");
    if (seed == null) {
      seed = random.draw(32);
      this.folder.write("identity.key", seed);
    }
    identity = new Ed25519(seed);
    http = new Http(server, identity, PATIENCE);
  }

  /** The 32 bytes of the identity's key, which an attestation of the platform's must be bound to. */
  public byte[] publicKey() {
    return identity.publicKey();
  }

  /**
   * Gets a certificate for the identity; the same one again while it is valid.
   *
   * @param attestation at most 16384 bytes for the operator's hook, empty where it wants none
   */
  public void enrol(String token, String population, byte[] attestation)
      throws IOException, InterruptedException, Malformed, Refused {
    byte[] key = identity.publicKey();
    byte[] secret = token.getBytes(StandardCharsets.UTF_8);
    byte[] hash = Hashes.labelled(Labels.TOKEN, key, secret);
    Writer signed = new Writer().put(key).text(population).put(hash).sized(attestation);
    byte[] signature = identity.sign(Labels.ENROL, signed.bytes());
    Writer out = new Writer().put(key).text(population).sized(secret).sized(attestation);
    Reader in = new Reader(http.call("POST", "/enrol", out.put(signature).bytes()), "certificate");
    Certificate certificate = Certificate.read(in);
    Context here = new Context(certificate.tenant(), population, "", 0, new byte[32]);
    String fault = Policy.fault(certificate, authority, here, nowS(), Set.of());
    if (fault != null || !Arrays.equals(certificate.publicKey(), identity.publicKey())) {
      throw new Refused(Kind.BadCertificate, fault == null ? "of another identity" : fault);
    }
    http.isEnrolledAs(certificate.client());
    member = new Member(identity, certificate, authority);
  }

  /** Takes part in one round; false if the server has no task. Rounds that do not suit are left. */
  public boolean takePart(Trainer trainer)
      throws IOException, InterruptedException, Malformed, Refused {
    Offer offer = awaitOffer();
    if (offer == null) {
      return false;
    }
    Update update = train(offer, trainer);
    Advertised joined =
        Client.join(member, offer.context(), offer.encoding(), policy, journal, random);
    try {
      aggregate(joined, offer, update);
    } finally {
      joined.abort();
    }
    return true;
  }

  /** Why the last offer that did not suit was declined; empty if none was. */
  public String declined() {
    return declined;
  }

  @Override
  public void close() throws IOException {
    folder.close();
  }

  private Offer awaitOffer() throws IOException, InterruptedException, Malformed {
    while (true) {
      long asked = System.nanoTime();
      byte[] question = CheckIn.request("", 0, new byte[0]);
      CheckIn reply = CheckIn.parse(http.call("POST", "/checkin", question));
      if (reply.kind() == CheckIn.IDLE) {
        return null;
      }
      if (reply.kind() == CheckIn.OFFER) {
        Offer offer = Offer.parse(reply.body());
        if (suits(offer)) {
          return offer;
        }
      }
      http.pause(reply.retryMs(), asked);
    }
  }

  private boolean suits(Offer offer) {
    Context context = offer.context();
    if (!tried.add(context.task() + " " + context.round())) {
      return false;
    }
    if (offer.plan().length > 0) {
      declined = "a plan is offered, and plain training is all that this device does";
      return false;
    }
    try {
      policy.checkOffer(offer.minCohort(), offer.encoding());
      journal.checkNew(context.task(), context.round(), context.model());
      return true;
    } catch (Refused e) {
      declined = e.getMessage();
      return false;
    }
  }

  private Update train(Offer offer, Trainer trainer)
      throws IOException, InterruptedException, Refused {
    byte[] model = download(offer.model());
    byte[] weights = download(offer.weights());
    byte[] both = Hashes.modelDigest(offer.model(), offer.weights());
    if (!Arrays.equals(both, offer.context().model())) {
      throw new Refused(Kind.ModelMismatch, "the offer's digest is not of its model and weights");
    }
    float[] start = new float[weights.length / 4];
    ByteBuffer.wrap(weights).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(start);
    if (weights.length != 4 * offer.encoding().length()) {
      throw new Refused(Kind.EncodingMismatch, start.length + " weights came");
    }
    return trainer.train(model, start);
  }

  private byte[] download(byte[] digest) throws IOException, InterruptedException, Refused {
    byte[] data = http.call("GET", "/models/" + HexFormat.of().formatHex(digest), new byte[0]);
    if (data == null || !Arrays.equals(Hashes.sha256(data), digest)) {
      throw new Refused(Kind.ModelMismatch, "what the server sent has another digest");
    }
    return data;
  }

  /** Advertise, share, upload, agree, reveal: each message once, or again the same. */
  private void aggregate(Advertised joined, Offer offer, Update update)
      throws IOException, InterruptedException, Malformed, Refused {
    String path = advertise(joined, offer);
    Shared shared = joined.receiveCohort(http.poll(path + "/adverts"), nowS());
    http.call("PUT", path + "/shares", shared.message());
    Masked masked = shared.receiveShares(http.poll(path + "/shares"), update);
    http.upload(path + "/vector", masked.message());
    try {
      Agreed agreed = masked.receiveSurvivors(http.poll(path + "/survivors"));
      http.call("PUT", path + "/agree", agreed.message());
      byte[] agreements = http.poll(path + "/agreements");
      http.call("PUT", path + "/reveal", agreed.receiveAgreements(agreements).message());
    } catch (ServerRefused refused) {
      // The others revealed enough before this device did; its vector is in the sum.
      if (!refused.kind().equals("RoundFinished")) {
        throw refused;
      }
    }
  }

  /** The path of the session that the advert led to. */
  private String advertise(Advertised joined, Offer offer)
      throws IOException, InterruptedException, Malformed, Refused {
    Context context = offer.context();
    byte[] message = CheckIn.request(context.task(), context.round(), joined.message());
    while (true) {
      long asked = System.nanoTime();
      CheckIn reply = CheckIn.parse(http.call("POST", "/checkin", message));
      if (reply.kind() == CheckIn.SESSION) {
        return "/sessions/" + HexFormat.of().formatHex(reply.body());
      }
      if (reply.kind() == CheckIn.OFFER) {
        // A server may take the update in another round; this device begins anew.
        throw new Refused(Kind.StaleRound, "round " + context.round() + " has filled");
      }
      http.pause(0, asked);
    }
  }

  private static long nowS() {
    return System.currentTimeMillis() / 1000;
  }
}
