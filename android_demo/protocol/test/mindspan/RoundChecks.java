package mindspan;

import static mindspan.Checks.same;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import mindspan.Checks.Check;
import mindspan.client.Advertised;
import mindspan.client.Agreed;
import mindspan.client.Masked;
import mindspan.client.Shared;

/** Whole rounds, byte for byte: every client of each file is played again. */
final class RoundChecks {
  private static final List<String> FILES =
      List.of("round_of_three.json", "round_with_drop_outs.json", "round_on_a_ring.json");

  private final Path golden;

  RoundChecks(Path golden) {
    this.golden = golden;
  }

  void addTo(Map<String, Check> checks) {
    for (String file : FILES) {
      String name = file.replace(".json", "").replace('_', ' ');
      checks.put("every client of the " + name + " sends the same bytes", () -> play(file));
    }
  }

  private void play(String file) throws Exception {
    Played played = new Played(golden, file);
    int revealed = 0;
    for (String id : played.clients()) {
      revealed += play(played, id) ? 1 : 0;
    }
    same(revealed >= 3, true);
  }

  /** Whether the client came to the end. */
  private static boolean play(Played played, String id) throws Exception {
    Json.Fields client = played.client(id);
    Advertised joined = played.join(id);
    same(joined.message(), client.hex("advert"));
    if (!client.has("shares")) {
      return false;
    }
    Shared shared = joined.receiveCohort(played.cohort(), played.nowS);
    same(shared.message(), client.hex("shares"));
    same(shared.session().id, played.round.hex("session"));
    if (!client.has("vector")) {
      return false;
    }
    Masked masked = shared.receiveShares(client.hex("boxes"), played.update(id));
    same(masked.message(), client.hex("vector"));
    Agreed agreed = masked.receiveSurvivors(played.round.hex("survivors"));
    same(agreed.message(), client.hex("agree"));
    byte[] agreements = played.round.hex("agreements");
    same(agreed.receiveAgreements(agreements).message(), client.hex("reveal"));
    return true;
  }
}
