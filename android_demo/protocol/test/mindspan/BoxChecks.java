package mindspan;

import static mindspan.Checks.same;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import mindspan.Checks.Check;
import mindspan.boxes.Ed25519;
import mindspan.boxes.Encoder;
import mindspan.boxes.Hashes;
import mindspan.boxes.Keys;
import mindspan.boxes.Labels;
import mindspan.boxes.Mask;
import mindspan.boxes.Packing;
import mindspan.boxes.Seal;
import mindspan.boxes.Shamir;
import mindspan.boxes.Update;
import mindspan.boxes.X25519;
import mindspan.client.Graph;
import mindspan.messages.Advert;
import mindspan.messages.Certificate;
import mindspan.messages.Context;
import mindspan.messages.Encoding;
import mindspan.messages.Params;
import mindspan.messages.Reader;
import mindspan.messages.Revocations;

/** Each box of the protocol against boxes.json. */
final class BoxChecks {
  private final Json.Fields boxes;
  private final byte[] session;

  BoxChecks(Path golden) throws IOException {
    boxes = Json.parse(Files.readString(golden.resolve("boxes.json")));
    session = boxes.hex("session");
  }

  void addTo(Map<String, Check> checks) {
    checks.put("words are packed without gaps and come back", this::packing);
    checks.put("shares of a secret are those of the vectors and give it back", this::sharing);
    checks.put("exchanged and derived keys are those of the vectors", this::keys);
    checks.put("a key of low order gives no shared secret", this::lowOrder);
    checks.put("boxes are those of the vectors and open for their receiver alone", this::sealing);
    checks.put("masks are the words of the vectors", this::masking);
    checks.put("certificates, adverts and revocations verify and write themselves", this::signing);
    checks.put("a request is signed as in the vectors", this::requests);
    checks.put("roots of Merkle trees are those of the vectors", this::merkle);
    checks.put("hashes are those of the vectors", this::hashing);
    checks.put("an update is encoded as in the vectors", this::encoding);
    checks.put("thresholds and rings have the sizes of the vectors", this::sizes);
    checks.put("a ring and its safety are those of the vectors", this::graph);
  }

  private void packing() {
    for (Object row : boxes.list("pack")) {
      Json.Fields vector = (Json.Fields) row;
      int bits = (int) vector.number("bits");
      long[] words = vector.numbers("words");
      same(Packing.pack(words, bits), vector.hex("packed"));
      same(Packing.unpack(vector.hex("packed"), words.length, bits), words);
    }
  }

  private void sharing() {
    for (Object row : boxes.list("shamir")) {
      Json.Fields vector = (Json.Fields) row;
      int threshold = (int) vector.number("threshold");
      int count = vector.list("shares").size();
      byte[][] shares =
          Shamir.split(vector.hex("secret"), threshold, count, vector.hex("random"));
      List<byte[]> last = new ArrayList<>();
      for (int i = 0; i < count; i++) {
        same(shares[i], HexFormat.of().parseHex((String) vector.list("shares").get(i)));
        if (i >= count - threshold) {
          last.add(shares[i]);
        }
      }
      same(Shamir.combine(last), vector.hex("secret"));
    }
  }

  private void keys() throws GeneralSecurityException {
    Json.Fields vector = boxes.fields("keys");
    byte[] a = vector.hex("secret_a");
    byte[] shared = X25519.exchange(a, vector.hex("public_b"));
    same(X25519.publicKey(a), vector.hex("public_a"));
    same(shared, vector.hex("shared"));
    same(Keys.ofPair(shared, session, 9, 3, 21), vector.hex("pair_key_of_3_and_9_at_21_bits"));
    same(Keys.ofSelf(a, session, 3, 21), vector.hex("self_key_of_3_at_21_bits"));
    same(Mask.sign(3, 9), 1);
    same(Mask.sign(9, 3), -1);
  }

  private void lowOrder() {
    try {
      X25519.exchange(new byte[32], new byte[32]);
    } catch (GeneralSecurityException wanted) {
      return;
    }
    throw new AssertionError("a shared secret with the point zero");
  }

  private void sealing() {
    Json.Fields vector = boxes.fields("seal");
    Seal seal = new Seal(vector.hex("shared"), session);
    byte[] box = seal.seal(3, 9, vector.hex("shares"));
    same(box, vector.hex("box_from_3_to_9"));
    same(seal.seal(9, 3, vector.hex("shares")), vector.hex("box_from_9_to_3"));
    same(seal.open(3, 9, box), vector.hex("shares"));
    same(seal.open(9, 3, box) == null, true);
    same(new Seal(vector.hex("shared"), new byte[32]).open(3, 9, box) == null, true);
  }

  private void masking() {
    Json.Fields vector = boxes.fields("mask");
    same(Mask.expand(vector.hex("key"), 9, 21), vector.numbers("words_at_21_bits"));
    same(Mask.expand(vector.hex("key"), 9, 40), vector.numbers("words_at_40_bits"));
  }

  private void signing() throws Exception {
    Json.Fields vector = boxes.fields("signatures");
    byte[] authority = vector.hex("authority");
    byte[] given = vector.hex("certificate");
    Certificate certificate = Certificate.read(new Reader(given, "certificate"));
    same(certificate.isSignedBy(authority), true);
    same(certificate.isSignedBy(vector.hex("identity")), false);
    same(certificate.bytes(), given);
    Context context = Context.read(new Reader(vector.hex("context"), "context"));
    Advert advert = Advert.read(new Reader(vector.hex("advert"), "advert"));
    same(advert.isSignedBy(vector.hex("identity"), context), true);
    same(advert.bytes(), vector.hex("advert"));
    byte[] list = vector.hex("revocations_4_of_1000_and_1001");
    Revocations revocations = Revocations.read(new Reader(list, "revocations"));
    same(revocations.isSignedBy(authority), true);
    same(revocations.serials(), List.of(1000L, 1001L));
  }

  private void requests() {
    Json.Fields vector = boxes.fields("signatures");
    byte[] seed = Hashes.sha256("identity 0".getBytes(StandardCharsets.US_ASCII));
    Ed25519 identity = new Ed25519(seed);
    same(identity.publicKey(), vector.hex("identity"));
    // The file writes the line breaks of the request as JSON does.
    byte[] body = Hashes.sha256("body".getBytes(StandardCharsets.US_ASCII));
    String request = "PUT /sessions/00/agree\n17\n" + HexFormat.of().formatHex(body);
    byte[] signature = identity.sign(Labels.REQUEST, request.getBytes(StandardCharsets.US_ASCII));
    same(signature, vector.hex("request_signature"));
  }

  private void merkle() {
    for (Object row : boxes.list("merkle")) {
      Json.Fields vector = (Json.Fields) row;
      List<byte[]> leaves = new ArrayList<>();
      vector.list("leaves").forEach(leaf -> leaves.add(HexFormat.of().parseHex((String) leaf)));
      same(Hashes.merkleRoot(leaves), vector.hex("root"));
    }
  }

  private void hashing() {
    Json.Fields vector = boxes.fields("hashes");
    same(
        Hashes.modelDigest(filled(1), filled(2)), vector.hex("model_digest_of_32_times_01_and_02"));
    same(
        Hashes.labelled(Labels.COMMITMENT, session, filled(7)),
        vector.hex("commitment_to_32_times_07"));
  }

  private void encoding() throws Exception {
    Json.Fields vector = boxes.fields("encode");
    Params params = Params.read(new Reader(vector.hex("params"), "params"));
    same(params.bytes(), vector.hex("params"));
    Update update =
        new Update(
            vector.floats("update"),
            vector.number("weight"),
            vector.real("loss"),
            vector.number("correct"),
            vector.number("examples"));
    Encoder encoder = new Encoder(params.encoding(), params.ringBits(), session);
    long[] words = encoder.encode(update, vector.hex("seed"));
    same(words, vector.numbers("words"));
    long sum = encoder.checksum(words, words.length - 1);
    same(sum, vector.number("checksum_of_the_words_before_it"));
  }

  private void sizes() {
    for (Object row : boxes.list("threshold_and_ring")) {
      Json.Fields vector = (Json.Fields) row;
      int clients = (int) vector.number("clients");
      int bits = (int) vector.number("value_bits");
      Encoding encoding = new Encoding(1, bits, vector.number("max_weight"), 1, 1, 1, 0);
      same((long) Params.leastThreshold(clients - 1), vector.number("threshold"));
      same((long) Params.leastRingBits(clients, encoding), vector.number("ring_bits"));
    }
  }

  private void graph() {
    Json.Fields vector = boxes.fields("graph");
    TreeMap<Long, byte[]> nonces = new TreeMap<>();
    for (String client : vector.fields("nonces").names()) {
      nonces.put(Long.parseLong(client), vector.fields("nonces").hex(client));
    }
    Encoding encoding = new Encoding(1, 16, 1, 1, 1, 1, 0);
    Params params = new Params(nonces.size(), 4, 3, 20, 1, encoding);
    Graph.neighbours(nonces, params)
        .forEach(
            (client, near) -> {
              long[] wanted = vector.fields("ring_of_4").numbers(client.toString());
              same(near.stream().mapToLong(i -> i).toArray(), wanted);
            });
    for (Object row : vector.list("security")) {
      Json.Fields safe = (Json.Fields) row;
      double bits =
          Graph.securityBits(
              (int) safe.number("clients"),
              (int) safe.number("neighbours"),
              (int) safe.number("threshold"));
      same(Math.abs(bits - safe.real("bits")) < 1e-4, true);
    }
  }

  private static byte[] filled(int value) {
    byte[] bytes = new byte[32];
    Arrays.fill(bytes, (byte) value);
    return bytes;
  }
}
