package mindspan.messages;

import java.util.Arrays;

/** What a session is about; each client knows it before it joins. */
public record Context(String tenant, String population, String task, long round, byte[] model) {
  public static Context read(Reader in) throws Malformed {
    return new Context(in.text(), in.text(), in.text(), in.u64(), in.take(32));
  }

  public boolean sameAs(Context other) {
    return tenant.equals(other.tenant)
        && population.equals(other.population)
        && task.equals(other.task)
        && round == other.round
        && Arrays.equals(model, other.model);
  }
}
