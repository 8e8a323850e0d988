package mindspan.client;

import java.util.HashMap;
import java.util.Map;
import mindspan.boxes.Bytes;

/** All that must be erased after the reveal, or when the client gives up. */
final class Secrets {
  final byte[] shareSecret;
  final byte[] maskSecret;
  final byte[] b;
  /** By owner, the share of its s_sk and the share of its b. */
  final Map<Long, byte[][]> shares = new HashMap<>();

  Secrets(RandomBytes random) {
    shareSecret = random.draw(32);
    maskSecret = random.draw(32);
    b = random.draw(32);
  }

  private boolean wiped;

  boolean areWiped() {
    return wiped;
  }

  void wipe() {
    wiped = true;
    Bytes.wipe(shareSecret, maskSecret, b);
    shares.values().forEach(Bytes::wipe);
    shares.clear();
  }
}
