package mindspan.device;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Map;
import mindspan.Checks.Check;

/** What a device keeps in its folder. */
public final class DeviceChecks {
  public void addTo(Map<String, Check> checks) {
    checks.put("a journal outlasts its device", this::kept);
    checks.put("a damaged journal is not taken for an empty one", this::damaged);
    checks.put("two devices never share a folder", this::shared);
    checks.put("an error of the server is a kind and a text", this::kinds);
  }

  private void kept() throws Exception {
    Path path = Files.createTempDirectory("device");
    byte[] model = new byte[32];
    try (Folder folder = new Folder(path)) {
      Journal journal = new Journal(folder);
      journal.checkNew("a task\n7", 3, model);
      journal.keepRound("a task\n7", 3);
      journal.spend("a task\n7", model, new byte[] {1, 2});
      journal.keepRevocationNumber(5);
      journal.keepRevocationNumber(4);
    }
    try (Folder folder = new Folder(path)) {
      Journal journal = new Journal(folder);
      require(journal.lastRound("a task\n7") == 3 && journal.lastRound("b") == -1);
      require(Arrays.equals(journal.spentVector("a task\n7", model), new byte[] {1, 2}));
      require(journal.revocationNumber() == 5);
    }
  }

  private void damaged() throws Exception {
    Path path = Files.createTempDirectory("device");
    Files.writeString(path.resolve("journal"), "round:00");
    try (Folder folder = new Folder(path)) {
      new Journal(folder);
    } catch (IOException wanted) {
      require(wanted.getMessage().startsWith("the journal is damaged"));
      return;
    }
    throw new AssertionError("a damaged journal was read");
  }

  private void shared() throws Exception {
    Path path = Files.createTempDirectory("device");
    try (Folder first = new Folder(path)) {
      require(first.read("nothing") == null);
      new Folder(path).close();
    } catch (IOException wanted) {
      require(wanted.getMessage().endsWith("is in use by another device"));
      return;
    }
    throw new AssertionError("two devices had one folder");
  }

  private void kinds() {
    ServerRefused refused = new ServerRefused(410, "Gone: the round is over");
    require(refused.kind().equals("Gone") && refused.status == 410);
  }

  private static void require(boolean holds) {
    if (!holds) {
      throw new AssertionError("does not hold");
    }
  }
}
