package mindspan.device;

import static java.nio.charset.StandardCharsets.US_ASCII;
import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.util.HexFormat;
import java.util.Map;
import java.util.TreeMap;
import mindspan.client.Memory;

/** A memory in a file of lines, each a key and what was last kept under it. */
final class Journal implements Memory {
  private static final String NAME = "journal";
  private static final String REVOCATIONS = "revocations";
  private static final HexFormat HEX = HexFormat.of();

  private final Folder folder;
  private final Map<String, String> kept = new TreeMap<>();

  Journal(Folder folder) throws IOException {
    this.folder = folder;
    byte[] bytes = folder.read(NAME);
    if (bytes == null) {
      return;
    }
    for (String line : new String(bytes, US_ASCII).split("\n")) {
      String[] words = line.split(" ");
      if (words.length != 2 || !words[1].matches("[0-9a-f]+")) {
        // To go on with an empty one would be to forget what is spent.
        throw new IOException("the journal is damaged; enrol this device anew");
      }
      kept.put(words[0], words[1]);
    }
  }

  @Override
  public long lastRound(String task) {
    return Long.parseLong(kept.getOrDefault(ofTask("round", task), "-1"));
  }

  @Override
  public byte[] spentVector(String task, byte[] model) {
    String hash = kept.get(ofModel(task, model));
    return hash == null ? null : HEX.parseHex(hash);
  }

  @Override
  public long revocationNumber() {
    return Long.parseLong(kept.getOrDefault(REVOCATIONS, "0"));
  }

  @Override
  public void keepRound(String task, long round) {
    keep(ofTask("round", task), Long.toString(round));
  }

  @Override
  public void keepSpent(String task, byte[] model, byte[] vectorHash) {
    keep(ofModel(task, model), HEX.formatHex(vectorHash));
  }

  @Override
  public void keepRevocationNumber(long number) {
    if (number > revocationNumber()) {
      keep(REVOCATIONS, Long.toString(number));
    }
  }

  private void keep(String key, String value) {
    kept.put(key, value);
    StringBuilder lines = new StringBuilder();
    kept.forEach((name, what) -> lines.append(name).append(' ').append(what).append('\n'));
    folder.write(NAME, lines.toString().getBytes(US_ASCII));
  }

  /** A task's name is anything that a server says: in hexadecimal it is one word. */
  private static String ofTask(String what, String task) {
    return what + ":" + HEX.formatHex(task.getBytes(UTF_8));
  }

  private static String ofModel(String task, byte[] model) {
    return ofTask("spent", task) + ":" + HEX.formatHex(model);
  }
}
