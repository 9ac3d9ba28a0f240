package peer;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.Metric;
import org.apache.kafka.common.MetricName;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.WindowStore;

/**
 * The apps of benchmarks/stream_apps.py: totals, windows, join.
 *
 * <p>Arguments: which app, bootstrap servers, state directory, topic of the events, their number, how many of them are
 * to warm up with. Prints one JSON line: {"records": N, "millis": T}, as peer.Pos does.
 */
public final class Streams {
  private static final ObjectMapper JSON = new ObjectMapper();

  private Streams() {}

  /** Runs the peer; see the class comment for the arguments. */
  public static void main(String[] args) throws Exception {
    String app = args[0];
    String topic = args[3];
    long records = Long.parseLong(args[4]);
    long warmUp = Long.parseLong(args[5]);
    KafkaStreams streams = new KafkaStreams(topology(app, topic).build(), settings(app, args[1], args[2]));
    long startedAt = 0;
    long first = 0;
    streams.start();
    while (true) {
      Thread.sleep(20);
      double consumed = consumed(streams, topic);
      if (consumed > warmUp && startedAt == 0) {
        first = (long) consumed;
        startedAt = System.currentTimeMillis();
      }
      if (consumed >= records) {
        System.out.println(
            "{\"records\": " + ((long) consumed - first) + ", \"millis\": " + (System.currentTimeMillis() - startedAt) + "}");
        streams.close();
        System.exit(0);
      }
    }
  }

  private static Properties settings(String app, String bootstrap, String stateDir) {
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, app + "-peer-" + System.currentTimeMillis());
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, stateDir);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, "2");
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "100");
    settings.put("auto.offset.reset", "earliest");
    settings.put("consumer.isolation.level", "read_committed");
    settings.put("producer.linger.ms", "50");
    settings.put("producer.compression.type", "lz4");
    settings.put("producer.batch.size", "262144");
    settings.put("max.poll.records", "5000");
    return settings;
  }

  private static StreamsBuilder topology(String app, String topic) {
    Serde<String> text = Serdes.String();
    Serde<JsonNode> json = jsonSerde();
    StreamsBuilder builder = new StreamsBuilder();
    KStream<String, JsonNode> events = builder.stream(topic, Consumed.with(text, json));
    switch (app) {
      case "totals" -> events
          .groupByKey(Grouped.with(text, json))
          .aggregate(
              Streams::nothing,
              Streams::withEvent,
              Materialized.<String, JsonNode, KeyValueStore<Bytes, byte[]>>as("totals")
                  .withKeySerde(text)
                  .withValueSerde(json));
      case "windows" -> events
          .groupByKey(Grouped.with(text, json))
          .windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofHours(1), Duration.ofMinutes(5)))
          .aggregate(
              Streams::nothing,
              Streams::withEvent,
              Materialized.<String, JsonNode, WindowStore<Bytes, byte[]>>as("hours")
                  .withKeySerde(text)
                  .withValueSerde(json)
                  .withRetention(Duration.ofDays(1)));
      case "join" -> events
          .join(
              builder.table("bench-names", Consumed.with(text, json)),
              Streams::named,
              Joined.with(text, json, json))
          .to("ks-joined", Produced.with(text, json));
      default -> throw new IllegalArgumentException(app);
    }
    return builder;
  }

  private static JsonNode nothing() {
    return JSON.createObjectNode().put("Events", 0).put("Total", 0L);
  }

  private static JsonNode withEvent(String key, JsonNode event, JsonNode totals) {
    return JSON.createObjectNode()
        .put("Events", totals.get("Events").asInt() + 1)
        .put("Total", totals.get("Total").asLong() + event.get("Amount").asLong());
  }

  private static JsonNode named(JsonNode event, JsonNode name) {
    ((ObjectNode) event).set("Name", name.get("Name"));
    return event;
  }

  private static double consumed(KafkaStreams streams, String topic) {
    double sum = 0;
    for (Map.Entry<MetricName, ? extends Metric> entry : streams.metrics().entrySet()) {
      MetricName name = entry.getKey();
      if (name.name().equals("records-consumed-total")
          && name.group().equals("consumer-fetch-manager-metrics")
          && topic.equals(name.tags().get("topic"))
          && !name.tags().containsKey("partition")) {
        sum += (Double) entry.getValue().metricValue();
      }
    }
    return sum;
  }

  private static Serde<JsonNode> jsonSerde() {
    return Serdes.serdeFrom(
        (topic, value) -> {
          try {
            return value == null ? null : JSON.writeValueAsBytes(value);
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        },
        (topic, bytes) -> {
          try {
            return bytes == null ? null : JSON.readTree(bytes);
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        });
  }
}
