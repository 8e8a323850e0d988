package mindspan;

import java.io.IOException;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import mindspan.device.DeviceChecks;

/** All checks by name: plain code, so that they run with a JDK alone and under JUnit as well. */
public final class Checks {
  private Checks() {}

  /** One check; it throws if it fails. */
  public interface Check {
    void run() throws Exception;
  }

  /** What a name stands for; golden is the folder of the vectors. */
  public static Map<String, Check> all(Path golden) throws IOException {
    Map<String, Check> checks = new LinkedHashMap<>();
    new BoxChecks(golden).addTo(checks);
    new RoundChecks(golden).addTo(checks);
    new RefusalChecks(golden).addTo(checks);
    new DeviceChecks().addTo(checks);
    return checks;
  }

  /** Runs all, says a line of each; the exit code is 1 if any fails. */
  public static void main(String[] arguments) throws IOException {
    boolean failed = false;
    for (Map.Entry<String, Check> check : all(Path.of(arguments[0])).entrySet()) {
      try {
        check.getValue().run();
        System.out.println("ok " + check.getKey());
      } catch (Exception | AssertionError e) {
        System.out.println("FAILED " + check.getKey() + ": " + e);
        failed = true;
      }
    }
    System.exit(failed ? 1 : 0);
  }

  static void same(byte[] got, byte[] wanted) {
    if (!Arrays.equals(got, wanted)) {
      HexFormat hex = HexFormat.of();
      throw new AssertionError(hex.formatHex(got) + ", wanted " + hex.formatHex(wanted));
    }
  }

  static void same(long[] got, long[] wanted) {
    if (!Arrays.equals(got, wanted)) {
      throw new AssertionError(Arrays.toString(got) + ", wanted " + Arrays.toString(wanted));
    }
  }

  static void same(Object got, Object wanted) {
    if (!got.equals(wanted)) {
      throw new AssertionError(got + ", wanted " + wanted);
    }
  }
}
