package mindspan.client;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.SortedMap;
import java.util.TreeSet;
import mindspan.boxes.Bytes;
import mindspan.boxes.Hashes;
import mindspan.boxes.Labels;
import mindspan.messages.Params;

/** Who is whose neighbour: everybody, or those near on a shuffled ring (Bell 2020). */
public final class Graph {
  private static final double COLLUDING = 0.2;
  private static final double DROPPING = 0.1;

  private Graph() {}

  /** By client its neighbours, in order of ids; from the nonces of all adverts. */
  public static Map<Long, List<Long>> neighbours(SortedMap<Long, byte[]> nonces, Params params) {
    Map<Long, List<Long>> graph = new HashMap<>();
    if (params.isComplete()) {
      for (long client : nonces.keySet()) {
        List<Long> others = new ArrayList<>(nonces.keySet());
        others.remove(client);
        graph.put(client, others);
      }
      return graph;
    }
    List<Long> ring = shuffled(nonces);
    for (int place = 0; place < ring.size(); place++) {
      TreeSet<Long> near = new TreeSet<>();
      for (int step = 1; step <= params.neighbours() / 2; step++) {
        near.add(ring.get((place + step) % ring.size()));
        near.add(ring.get(Math.floorMod(place - step, ring.size())));
      }
      graph.put(ring.get(place), new ArrayList<>(near));
    }
    return graph;
  }

  /** -log2 of the chance that colluders undo any one client of a sparse graph. */
  public static double securityBits(int clients, int degree, int threshold) {
    int bad = (int) Math.rint(COLLUDING * clients);
    double split = tail(clients - 1, bad, degree, Math.max(2 * threshold - degree, 0));
    double cut = Math.pow(COLLUDING + DROPPING, degree / 2);
    return 0 - Math.log(Math.min(1, clients * (split + cut))) / Math.log(2);
  }

  private static List<Long> shuffled(SortedMap<Long, byte[]> nonces) {
    byte[] all = Bytes.join(nonces.values().toArray(new byte[0][]));
    byte[] seed = Hashes.sha256(Labels.RING, all);
    Map<Long, byte[]> keys = new HashMap<>();
    nonces.keySet().forEach(i -> keys.put(i, Hashes.sha256(seed, Bytes.u32(i))));
    List<Long> order = new ArrayList<>(nonces.keySet());
    order.sort((a, b) -> Arrays.compareUnsigned(keys.get(a), keys.get(b)));
    return order;
  }

  /** The chance of at least so many marked ones among those drawn (hypergeometric). */
  private static double tail(int whole, int marked, int drawn, int least) {
    double sum = 0;
    for (int x = Math.max(least, drawn - (whole - marked)); x <= Math.min(marked, drawn); x++) {
      double ways = logWays(marked, x) + logWays(whole - marked, drawn - x);
      sum += Math.exp(ways - logWays(whole, drawn));
    }
    return sum;
  }

  /** log of n over k. */
  private static double logWays(int n, int k) {
    double sum = 0;
    for (int i = 1; i <= k; i++) {
      sum += Math.log((double) (n - k + i) / i);
    }
    return sum;
  }
}
