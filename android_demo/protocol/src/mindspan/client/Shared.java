package mindspan.client;

import java.util.Arrays;
import java.util.Set;
import java.util.TreeSet;
import mindspan.boxes.Bytes;
import mindspan.boxes.Encoder;
import mindspan.boxes.Hashes;
import mindspan.boxes.Keys;
import mindspan.boxes.Mask;
import mindspan.boxes.Packing;
import mindspan.boxes.Seal;
import mindspan.boxes.Shamir;
import mindspan.boxes.Update;
import mindspan.client.Refused.Kind;
import mindspan.messages.Malformed;
import mindspan.messages.Reader;
import mindspan.messages.SealedShares;

/** Waits for the neighbours' shares. */
public final class Shared extends State<Masked> {
  private static final int MOST_BITMAP = 1250;

  private final Session session;

  Shared(Client client, Session session, byte[] message) {
    super(client, message);
    this.session = session;
  }

  public Session session() {
    return session;
  }

  /** R2: the masked vector. From here on the update is spent. */
  public Masked receiveShares(byte[] received, Update update) throws Malformed, Refused {
    return once(
        received,
        () -> {
          Set<Long> shared = openShares(received);
          int bits = session.params.ringBits();
          Encoder encoder = new Encoder(client.encoding(), bits, session.id);
          long[] words = encoder.encode(update, client.random().draw(32));
          byte[] vector = mask(words, shared);
          client.memory().spend(
              client.context().task(), client.context().model(), Hashes.sha256(vector));
          return new Masked(client, session, shared, vector);
        });
  }

  /** Keeps the valid shares in the secrets; who shared (U2) comes out. */
  private Set<Long> openShares(byte[] received) throws Malformed, Refused {
    Reader in = new Reader(received, "shares");
    Set<Long> shared = session.members(in.sized(MOST_BITMAP));
    if (!shared.contains(client.id())) {
      throw new Malformed("the list of those who shared leaves this client out");
    }
    if (shared.size() < client.policy().cohortFloor()) {
      throw client.policy().tooSmall(shared.size() + " clients have shared");
    }
    for (long sender : near(shared)) {
      openOne(sender, SealedShares.read(in));
    }
    in.done();
    int valid = client.secrets().shares.size();
    if (valid < session.params.threshold()) {
      throw new Refused(
          Kind.TooFewShares, valid + " valid shares, " + session.params.threshold() + " needed");
    }
    return shared;
  }

  private void openOne(long sender, SealedShares sealed) throws Refused {
    long me = client.id();
    byte[] key = session.advert(sender).shareKey();
    byte[] shared = Client.exchange(client.secrets().shareSecret, key);
    byte[] both = new Seal(shared, session.id).open(sender, me, sealed.box());
    Bytes.wipe(shared);
    if (both == null) {
      return;
    }
    byte[] ofS = Arrays.copyOf(both, Shamir.SHARE_SIZE);
    byte[] ofB = Arrays.copyOfRange(both, Shamir.SHARE_SIZE, both.length);
    Bytes.wipe(both);
    byte x = (byte) session.shareX(sender, me);
    byte[] digestS = session.shareDigest(sender, me, Session.SHARE_OF_S, ofS);
    byte[] digestB = session.shareDigest(sender, me, Session.SHARE_OF_B, ofB);
    if (ofS[0] == x
        && ofB[0] == x
        && Arrays.equals(digestS, sealed.digestOfS())
        && Arrays.equals(digestB, sealed.digestOfB())) {
      client.secrets().shares.put(sender, new byte[][] {ofS, ofB});
    }
  }

  /** y = enc(x) + PRG(b) + the pair masks, bit-packed. */
  private byte[] mask(long[] words, Set<Long> shared) throws Refused {
    long me = client.id();
    int bits = session.params.ringBits();
    byte[] own = Keys.ofSelf(client.secrets().b, session.id, me, bits);
    Mask.add(words, own, 1, bits);
    Bytes.wipe(own);
    for (long other : near(shared)) {
      byte[] secret = Client.exchange(client.secrets().maskSecret, session.advert(other).maskKey());
      byte[] key = Keys.ofPair(secret, session.id, me, other, bits);
      Mask.add(words, key, Mask.sign(me, other), bits);
      Bytes.wipe(secret, key);
    }
    Mask.reduce(words, bits);
    return Packing.pack(words, bits);
  }

  private Set<Long> near(Set<Long> shared) {
    Set<Long> near = new TreeSet<>(session.neighbours(client.id()));
    near.retainAll(shared);
    return near;
  }
}
