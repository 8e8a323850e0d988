package mindspan.client;

import java.util.Set;
import mindspan.boxes.Labels;
import mindspan.messages.Malformed;

/** Waits for the list of survivors. */
public final class Masked extends State<Agreed> {
  private final Session session;
  private final Set<Long> shared;

  Masked(Client client, Session session, Set<Long> shared, byte[] message) {
    super(client, message);
    this.session = session;
    this.shared = shared;
  }

  /** R3a: a signature under the survivor list. */
  public Agreed receiveSurvivors(byte[] received) throws Malformed, Refused {
    return once(
        received,
        () -> {
          Set<Long> survivors = session.members(received);
          Policy.checkSurvivors(session, client.id(), shared, survivors);
          byte[] statement = session.agreement(shared, survivors);
          byte[] signature = client.member().identity().sign(Labels.AGREE, statement);
          return new Agreed(client, session, shared, survivors, signature);
        });
  }
}
