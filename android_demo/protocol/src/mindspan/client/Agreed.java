package mindspan.client;

import java.util.HashSet;
import java.util.Set;
import mindspan.boxes.Ed25519;
import mindspan.boxes.Labels;
import mindspan.boxes.Shamir;
import mindspan.client.Refused.Kind;
import mindspan.messages.Cohort;
import mindspan.messages.Malformed;
import mindspan.messages.Reader;
import mindspan.messages.Writer;

/** Waits for the others' signatures under the same list. */
public final class Agreed extends State<Revealed> {
  private static final int NOTHING = 0;
  private static final int BAD_SHARE = 3;
  private static final int MOST_BYTES = Cohort.MOST_CLIENTS * (4 + Ed25519.SIGNATURE_SIZE);

  private final Session session;
  private final Set<Long> shared;
  private final Set<Long> survivors;

  Agreed(
      Client client, Session session, Set<Long> shared, Set<Long> survivors, byte[] message) {
    super(client, message);
    this.session = session;
    this.shared = shared;
    this.survivors = survivors;
  }

  /** R3b: one share for each neighbour, never both; then all secrets are erased. */
  public Revealed receiveAgreements(byte[] received) throws Malformed, Refused {
    return once(
        received,
        () -> {
          check(new Reader(received, "agreement"));
          Revealed revealed = new Revealed(client, reveal());
          client.secrets().wipe();
          return revealed;
        });
  }

  private void check(Reader in) throws Malformed, Refused {
    byte[] statement = session.agreement(shared, survivors);
    if (in.left() > MOST_BYTES) {
      throw new Malformed("more signatures than there can be clients");
    }
    Set<Long> agreed = new HashSet<>(Set.of(client.id()));
    while (in.left() > 0) {
      long signer = in.u32();
      byte[] signature = in.take(Ed25519.SIGNATURE_SIZE);
      if (survivors.contains(signer)
          && Ed25519.verifies(session.identity(signer), Labels.AGREE, statement, signature)) {
        agreed.add(signer);
      }
    }
    Set<Long> near = new HashSet<>(session.neighbours(client.id()));
    near.retainAll(agreed);
    if (near.size() < session.params.threshold() || agreed.size() < session.params.quorum()) {
      throw new Refused(
          Kind.SplitView, near.size() + " neighbours signed, " + agreed.size() + " in all");
    }
  }

  private byte[] reveal() {
    Writer out = new Writer();
    for (long owner : session.neighbours(client.id())) {
      byte[][] pair = client.secrets().shares.get(owner);
      boolean alive = survivors.contains(owner);
      if (!shared.contains(owner)) {
        out.u8(NOTHING).put(new byte[Shamir.SHARE_SIZE]);
      } else if (pair == null) {
        out.u8(BAD_SHARE).put(new byte[Shamir.SHARE_SIZE]);
      } else {
        out.u8(alive ? Session.SHARE_OF_B : Session.SHARE_OF_S).put(pair[alive ? 1 : 0]);
      }
    }
    return out.bytes();
  }
}
