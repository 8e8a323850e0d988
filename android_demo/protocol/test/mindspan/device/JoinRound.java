package mindspan.device;

import java.nio.file.Path;
import java.security.SecureRandom;
import java.util.HexFormat;
import mindspan.boxes.Update;
import mindspan.client.Policy;

/**
 * Joins one round with an update that the test knows, and prints the last random bytes that it
 * drew: the seed of the rounding.
 */
public final class JoinRound {
  private JoinRound() {}

  /** Arguments: server, folder, authority's key, token, floor, then the update. */
  public static void main(String[] arguments) throws Exception {
    byte[] authority = HexFormat.of().parseHex(arguments[2]);
    Policy policy = new Policy(Integer.parseInt(arguments[4]));
    float[] delta = new float[arguments.length - 5];
    for (int i = 0; i < delta.length; i++) {
      delta[i] = Float.parseFloat(arguments[5 + i]);
    }
    SecureRandom random = new SecureRandom();
    byte[][] last = new byte[1][];
    try (Device device =
        new Device(
            arguments[0],
            Path.of(arguments[1]),
            authority,
            policy,
            size -> {
              byte[] drawn = new byte[size];
              random.nextBytes(drawn);
              last[0] = drawn.clone();
              return drawn;
            })) {
      device.enrol(arguments[3], "default", new byte[0]);
      boolean done = device.takePart((model, weights) -> new Update(delta, 1, 0.25, 3, 4));
      System.out.println(done + " " + HexFormat.of().formatHex(last[0]));
    }
  }
}
