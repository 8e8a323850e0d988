package mindspan.client;

import java.util.List;
import mindspan.boxes.Bytes;
import mindspan.boxes.Hashes;
import mindspan.boxes.Labels;
import mindspan.boxes.Seal;
import mindspan.boxes.Shamir;
import mindspan.messages.Advert;
import mindspan.messages.Cohort;
import mindspan.messages.Malformed;
import mindspan.messages.SealedShares;
import mindspan.messages.Writer;

/** Waits for the cohort. */
public final class Advertised extends State<Shared> {
  private final Advert advert;

  Advertised(Client client, Advert advert) {
    super(client, advert.bytes());
    this.advert = advert;
  }

  /** R1: shares of both secrets for every neighbour. */
  public Shared receiveCohort(byte[] received, long nowS) throws Malformed, Refused {
    return once(
        received,
        () -> {
          Cohort cohort = Cohort.parse(received);
          Session session = client.policy().checkCohort(cohort, advert, client, nowS);
          return new Shared(client, session, share(session));
        });
  }

  private byte[] share(Session session) throws Refused {
    Secrets secrets = client.secrets();
    List<Long> neighbours = session.neighbours(client.id());
    byte[][] ofS = split(secrets.maskSecret, session);
    byte[][] ofB = split(secrets.b, session);
    byte[] commitment = Hashes.labelled(Labels.COMMITMENT, session.id, secrets.b);
    Writer out = new Writer().put(session.id).put(commitment);
    for (int i = 0; i < neighbours.size(); i++) {
      out.put(sealed(session, neighbours.get(i), ofS[i], ofB[i]).bytes());
    }
    Bytes.wipe(ofS);
    Bytes.wipe(ofB);
    return out.bytes();
  }

  private byte[][] split(byte[] secret, Session session) {
    int threshold = session.params.threshold();
    byte[] random = client.random().draw(Shamir.SECRET_SIZE * (threshold - 1));
    byte[][] shares = Shamir.split(secret, threshold, session.params.neighbours(), random);
    Bytes.wipe(random);
    return shares;
  }

  private SealedShares sealed(Session session, long holder, byte[] ofS, byte[] ofB)
      throws Refused {
    long me = client.id();
    byte[] key = session.advert(holder).shareKey();
    byte[] shared = Client.exchange(client.secrets().shareSecret, key);
    byte[] both = Bytes.join(ofS, ofB);
    byte[] box = new Seal(shared, session.id).seal(me, holder, both);
    Bytes.wipe(shared, both);
    return new SealedShares(
        box,
        session.shareDigest(me, holder, Session.SHARE_OF_S, ofS),
        session.shareDigest(me, holder, Session.SHARE_OF_B, ofB));
  }
}
