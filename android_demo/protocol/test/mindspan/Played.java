package mindspan;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Map;
import mindspan.boxes.Ed25519;
import mindspan.boxes.Update;
import mindspan.client.Advertised;
import mindspan.client.Client;
import mindspan.client.Member;
import mindspan.client.Memory;
import mindspan.client.Policy;
import mindspan.client.Refused;
import mindspan.messages.Certificate;
import mindspan.messages.Context;
import mindspan.messages.Encoding;
import mindspan.messages.Malformed;
import mindspan.messages.Params;
import mindspan.messages.Reader;

/** A round from a file: every client can be played again, with the randomness that it had. */
final class Played {
  /** Lets small cohorts pass. */
  static final Policy LAX = new Policy(2, 1000, 100, 1_000_000, 0);

  final Json.Fields round;
  final long nowS;

  Played(Path golden, String name) throws IOException {
    round = Json.parse(Files.readString(golden.resolve(name)));
    nowS = (long) round.real("now");
  }

  Iterable<String> clients() {
    return round.fields("clients").names();
  }

  Json.Fields client(String id) {
    return round.fields("clients").fields(id);
  }

  byte[] cohort() {
    return round.hex("cohort");
  }

  Context context() {
    Json.Fields c = round.fields("context");
    return new Context(
        c.text("tenant"), c.text("population"), c.text("task"), c.number("round"), c.hex("model"));
  }

  Encoding encoding() throws Malformed {
    return Params.read(new Reader(round.hex("params"), "params")).encoding();
  }

  Advertised join(String id) throws Malformed, Refused {
    return join(id, LAX, new Kept());
  }

  Advertised join(String id, Policy policy, Memory memory) throws Malformed, Refused {
    Json.Fields client = client(id);
    Certificate certificate =
        Certificate.read(new Reader(client.hex("certificate"), "certificate"));
    Member member =
        new Member(
            new Ed25519(client.hex("identity_seed")), certificate, round.hex("authority"));
    Deque<byte[]> drawn = new ArrayDeque<>();
    client.list("random").forEach(bytes -> drawn.add(HexFormat.of().parseHex((String) bytes)));
    return Client.join(member, context(), encoding(), policy, memory, size -> drawn.remove());
  }

  Update update(String id) {
    Json.Fields client = client(id);
    return new Update(
        client.floats("update"),
        client.number("weight"),
        client.real("loss"),
        client.number("correct"),
        client.number("examples"));
  }

  /** A memory that lasts as long as a check. */
  static final class Kept implements Memory {
    private final Map<String, Long> rounds = new HashMap<>();
    private final Map<String, byte[]> spent = new HashMap<>();
    private long revocations;

    @Override
    public long lastRound(String task) {
      return rounds.getOrDefault(task, -1L);
    }

    @Override
    public byte[] spentVector(String task, byte[] model) {
      return spent.get(task + Arrays.toString(model));
    }

    @Override
    public long revocationNumber() {
      return revocations;
    }

    @Override
    public void keepRound(String task, long round) {
      rounds.put(task, round);
    }

    @Override
    public void keepSpent(String task, byte[] model, byte[] vectorHash) {
      spent.put(task + Arrays.toString(model), vectorHash);
    }

    @Override
    public void keepRevocationNumber(long number) {
      revocations = Math.max(revocations, number);
    }
  }
}
