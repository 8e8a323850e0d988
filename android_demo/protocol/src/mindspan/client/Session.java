package mindspan.client;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import mindspan.boxes.Bytes;
import mindspan.boxes.Hashes;
import mindspan.boxes.Labels;
import mindspan.boxes.Shamir;
import mindspan.boxes.X25519;
import mindspan.client.Refused.Kind;
import mindspan.messages.Advert;
import mindspan.messages.Certificate;
import mindspan.messages.Cohort;
import mindspan.messages.Context;
import mindspan.messages.Malformed;
import mindspan.messages.Params;
import mindspan.messages.SealedShares;
import mindspan.messages.Writer;

/** One round of one cohort, and the id that binds it; both sides compute these from one message. */
public final class Session {
  public static final int SHARE_OF_B = 1;
  public static final int SHARE_OF_S = 2;

  public final byte[] id;
  public final Params params;
  private final Map<Long, Advert> adverts = new HashMap<>();
  private final Map<Long, byte[]> identities = new HashMap<>();
  private final List<Long> ids = new ArrayList<>();
  private final Map<Long, List<Long>> graph;

  Session(Cohort cohort) throws Malformed, Refused {
    checkShape(cohort);
    id = idOf(cohort);
    params = cohort.params();
    TreeMap<Long, byte[]> nonces = new TreeMap<>();
    for (Advert advert : cohort.adverts()) {
      adverts.put(advert.client(), advert);
      nonces.put(advert.client(), advert.nonce());
    }
    for (Certificate certificate : cohort.certificates()) {
      identities.put(certificate.client(), certificate.publicKey());
    }
    ids.addAll(nonces.keySet());
    graph = Graph.neighbours(nonces, params);
  }

  public Advert advert(long client) {
    return adverts.get(client);
  }

  public byte[] identity(long client) {
    return identities.get(client);
  }

  /** The ids that a client shares with, in order. */
  public List<Long> neighbours(long client) {
    return graph.get(client);
  }

  /** The x of the share that a holder gets of an owner's secrets: its place from 1. */
  public int shareX(long owner, long holder) {
    return Collections.binarySearch(neighbours(owner), holder) + 1;
  }

  /** Bit i, lowest first, is set if the i-th id is a member. */
  public byte[] bitmap(Collection<Long> members) {
    byte[] bits = new byte[(ids.size() + 7) / 8];
    for (int i = 0; i < ids.size(); i++) {
      if (members.contains(ids.get(i))) {
        bits[i / 8] |= (byte) (1 << i % 8);
      }
    }
    return bits;
  }

  /** The ids of a bitmap. */
  public Set<Long> members(byte[] bitmap) throws Malformed {
    Set<Long> members = new TreeSet<>();
    for (int i = 0; i < 8 * bitmap.length; i++) {
      if ((bitmap[i / 8] >>> i % 8 & 1) == 1) {
        if (i >= ids.size()) {
          throw new Malformed("a bitmap names more than " + ids.size() + " clients");
        }
        members.add(ids.get(i));
      }
    }
    if (bitmap.length != (ids.size() + 7) / 8) {
      throw new Malformed("a bitmap of " + bitmap.length + " bytes for " + ids.size() + " clients");
    }
    return members;
  }

  /** What every survivor signs. */
  public byte[] agreement(Set<Long> shared, Set<Long> survivors) {
    return Bytes.join(
        id,
        Hashes.labelled(Labels.SHARED_SET, id, bitmap(shared)),
        Hashes.labelled(Labels.SURVIVOR_SET, id, bitmap(survivors)));
  }

  public byte[] shareDigest(long owner, long holder, int kind, byte[] share) {
    byte[] place = Bytes.join(Bytes.u32(owner), Bytes.u32(holder), new byte[] {(byte) kind});
    byte[] digest = Hashes.labelled(Labels.SHARE_DIGEST, id, place, share);
    return Arrays.copyOf(digest, SealedShares.DIGEST_SIZE);
  }

  private static void checkShape(Cohort cohort) throws Malformed, Refused {
    Params params = cohort.params();
    long last = -1;
    Set<String> keys = new HashSet<>();
    for (Advert advert : cohort.adverts()) {
      if (advert.client() <= last) {
        throw new Malformed("the adverts are not sorted, of distinct clients");
      }
      last = advert.client();
      for (byte[] key : List.of(advert.shareKey(), advert.maskKey())) {
        if (!X25519.isCanonical(key)) {
          throw new Refused(Kind.BadKey, "a key of client " + last + " is not canonical");
        }
        keys.add(HexFormat.of().formatHex(key));
      }
    }
    int clients = cohort.adverts().size();
    if (clients < 2 || params.clients() != clients) {
      throw new Malformed(clients + " adverts, the parameters are of " + params.clients());
    }
    checkGraph(params);
    if (keys.size() != 2 * clients) {
      throw new Refused(Kind.KeysNotDistinct, "two of the advertised keys are the same");
    }
    checkCertificates(cohort);
  }

  static void checkGraph(Params params) throws Malformed {
    int most = Math.min(params.clients() - 1, Shamir.MOST_SHARES);
    int k = params.neighbours();
    if (params.threshold() < 1 || params.threshold() > k || k > most) {
      throw new Malformed("threshold " + params.threshold() + " of " + k + " neighbours");
    }
    if (k % 2 == 1 && !params.isComplete()) {
      throw new Malformed("a ring with " + k + " neighbours for each client");
    }
  }

  private static void checkCertificates(Cohort cohort) throws Malformed {
    boolean paired = cohort.certificates().size() == cohort.adverts().size();
    for (int i = 0; paired && i < cohort.adverts().size(); i++) {
      paired = cohort.certificates().get(i).client() == cohort.adverts().get(i).client();
    }
    if (!paired) {
      throw new Malformed("the certificates are not those of the adverts, in their order");
    }
  }

  private static byte[] idOf(Cohort cohort) {
    Context context = cohort.context();
    List<byte[]> leaves = new ArrayList<>();
    cohort.adverts().forEach(advert -> leaves.add(advert.bytes()));
    Writer out = new Writer().put(Labels.SESSION).text(context.tenant()).text(context.task());
    out.u64(context.round()).put(cohort.serverNonce()).put(context.model());
    return Hashes.sha256(out.put(cohort.params().bytes()).put(Hashes.merkleRoot(leaves)).bytes());
  }
}
