/* tools/protocol_prompts: the workload of the experiment: five categories, ten prompts each, all written for it.
 *
 * Sizes follow what the categories are: with the vocabulary of a real model about 20 tokens for a fact, 65 for a chain of
 * reasoning, 205 for a text to summarise, 85 for an answer with a form, 400 for a passage with questions. The vocabulary of
 * `synth` has few whole words and makes up to 1,020 of the last, so all fit in N = 1024. Two prompts of the last category
 * share a passage, and the questions stand behind it.
 */
#include "tools/protocol.h"

enum { PER_CATEGORY = DCT_PROTOCOL_PER_CATEGORY };

static const char *const factual[PER_CATEGORY] = {
    "What is the boiling point of water at sea level, in degrees Celsius and in Fahrenheit?",
    "Which planet of the solar system has the most mass, and about how many Earths would it take to match it?",
    "In which year did a human first walk on the Moon, and what was the name of the mission?",
    "What gas do green plants take from the air when they make sugar, and what gas do they give back?",
    "How many bits are there in a byte, and how many different values can one byte hold?",
    "What is the longest bone of the human body, and between which two joints does it lie?",
    "Which ocean lies between Africa and Australia, and is it the largest, the second or the third in area?",
    "What is the chemical symbol of iron, and from which Latin word does it come?",
    "How many strings does a standard violin have, and to which notes are they tuned?",
    "Which metal is liquid at room temperature, and in what instrument was it long used to measure heat?",
};

static const char *const reasoning[PER_CATEGORY] = {
    "A train leaves at 9:40 and drives 150 kilometres at 60 kilometres an hour. It then waits 20 minutes and "
    "returns over the same track at 75 kilometres an hour. At what time is it back where it started? Work "
    "through each leg in turn and show the times you add.",
    "A shop sells pens at 3 for 2 coins and notebooks at 5 coins each. Mira buys some pens and twice as many "
    "coins' worth of notebooks as of pens, and pays 60 coins in all. How many pens and how many notebooks "
    "does she carry home? Reason step by step and check the total at the end.",
    "Four friends sit in a row. Anna does not sit at an end. Ben sits somewhere to the left of Clara. Dora "
    "sits directly beside Anna, and Clara does not sit beside Dora. List every order that obeys all of these "
    "rules, and explain how you excluded the others.",
    "A tank holds 240 litres. One tap fills it in 6 hours, another in 4 hours, and a drain empties the full "
    "tank in 8 hours. The tank is half full when both taps and the drain are opened together. After how many "
    "minutes is it full? Explain each step of the calculation.",
    "A program reads a list of 1,000 numbers. It first sorts them, which takes n log n steps with a logarithm "
    "to base two, and then looks up 50 values with a binary search. Estimate the number of steps of both "
    "parts, say which one dominates, and say what would change with 50,000 lookups.",
    "In a village, every third house has a cat, every fourth house has a dog, and the houses are numbered "
    "from 1 to 120, with cats at multiples of three and dogs at multiples of four. How many houses have a cat "
    "but no dog, and how many have neither? Lay out your reasoning before you answer.",
    "A recipe for 6 people needs 450 grams of flour, 3 eggs and 240 millilitres of milk. A cook has 1 "
    "kilogram of flour, 8 eggs and half a litre of milk. For how many people can the recipe be made at most "
    "if eggs cannot be divided? Find the ingredient that runs out first and show why.",
    "Two boats start at the same moment from opposite banks of a river, each at a constant speed. They first "
    "meet 300 metres from the left bank, go on, turn at the banks at once, and meet again 200 metres from the "
    "right bank. How wide is the river? Derive it step by step.",
    "A password has five characters, each a digit or one of the letters A to F. How many passwords are there "
    "in all, how many of them have at least one letter, and how long would it take to try all of them at a "
    "rate of 10,000 in a second? Reason through each number.",
    "A farmer has hens and goats, 35 animals with 94 legs together. He sells a third of the goats and buys "
    "twice as many hens as the goats he sold. How many hens, goats and legs are there afterwards? Solve the "
    "first part with two equations, then follow the changes one by one.",
};

static const char *const summarise[PER_CATEGORY] = {
    "Summarise the following report in three sentences.\n\n"
    "The harbour of Lindwick was dredged this spring for the first time in eleven years. Silt from the river "
    "had raised the bed of the main channel by almost two metres, so that the larger fishing boats could "
    "leave only at high water. The work was planned for six weeks and took nine, because the dredger met a "
    "layer of old timber, which turned out to be the piles of a jetty from the eighteenth century. "
    "Archaeologists were given ten days to record and lift what could be saved. The town paid for the delay "
    "from its reserve, and the museum has since applied for a grant to conserve the wood. Since the channel "
    "was reopened, landings of herring have risen by a fifth, and two boats that had moved to a neighbouring "
    "port have come back. The harbour master expects that the channel will have to be cleared again in seven "
    "or eight years, and has asked that a small sum be set aside each year instead of borrowing when the time "
    "comes.",
    "Summarise the following notes in three sentences.\n\n"
    "Our library began to lend tools as well as books two years ago. The idea came from a reader who needed a "
    "drill for one afternoon and did not want to buy it. We started with forty tools given by members and "
    "kept them in the old map room. Each has a card that says how it is used, and for the four that can hurt "
    "people we ask for a short course first. In the first year there were 310 loans, in the second 1,240. "
    "About one loan in thirty comes back with damage, mostly a blunt blade, and a retired joiner repairs what "
    "he can on Thursdays. The costs are small: insurance is the largest part, then replacement bits and "
    "blades. What we did not foresee is that people stay to talk. They ask one another how to hang a door or "
    "fix a bicycle, and several have since met to do larger jobs together. We would like a second room with a "
    "bench.",
    "Summarise the following article in three sentences.\n\n"
    "Bread that rises slowly tastes better, and the reason is time. In a dough that is left in the cold for a "
    "day, yeast grows only a little, while bacteria and the enzymes of the flour go on working. Starch is cut "
    "into sugars, proteins are loosened, and acids appear that give flavour and help the loaf to keep. A "
    "dough that is hurried with much yeast and warmth is full of gas before any of this has happened, so the "
    "crumb is even and soft but says little. Bakers of the last century knew both ways and chose the fast one "
    "because an oven that stands idle costs money. Small bakeries have gone back to the slow way, since a "
    "refrigerator can be filled in the evening and emptied in the morning, and nobody has to stand beside it "
    "at night. They also found that some people who do not tolerate fast bread eat the slow one without harm, "
    "although the evidence is thin and the doctors who were asked about it remain careful.",
    "Summarise the following account in three sentences.\n\n"
    "When the bridge over the Tarn at Hallow was closed for repairs, the council expected eighteen months of "
    "traffic jams. A survey had counted 14,000 vehicles a day, and the next crossing lies nine kilometres "
    "upstream. In the first week there were long queues there, as foreseen. By the fourth week they had gone. "
    "Counters on all roads around showed that 5,000 of the 14,000 journeys had moved to the other bridge, "
    "3,000 had changed to the train or the bicycle, and the rest could not be found at all. People had "
    "combined errands, gone to a nearer shop, or stayed at home. Shops beside the closed bridge lost "
    "customers who came by car and won others who came on foot, and their takings fell by four per cent in "
    "the first quarter and had recovered by the third. When the work was done, the council did not open all "
    "four lanes again but gave two of them to buses and bicycles, and the old queues have not returned.",
    "Summarise the following memo in three sentences.\n\n"
    "On Monday at 02:10 the database that holds our orders stopped answering. The alarm did not ring, because "
    "the check that feeds it asks only whether the process is alive, and it was. A customer in another time "
    "zone wrote to us at 03:40, and the engineer on duty restarted the service at 04:05. No order was lost, "
    "but 212 were delayed. The cause was a disk that had filled with logs: a debug setting that was switched "
    "on two weeks before for an investigation had never been switched off. Rotation of logs was in place for "
    "the ordinary level and not for the detailed one. We have removed the setting, given the logs a disk of "
    "their own, and changed the check so that it reads a known row and measures how long that takes. We have "
    "also agreed that any temporary setting carries an end date, after which a script reports it each morning "
    "until somebody removes it.",
    "Summarise the following description in three sentences.\n\n"
    "The saltmarsh at Corran is flooded twice a day by the tide, and yet it grows. Every flood carries fine "
    "mud, and where the stems of grasses slow the water, the mud sinks and stays. In a calm year the surface "
    "rises by four to six millimetres, about as fast as the sea. Behind the marsh stands an old wall that "
    "protects the pastures. Waves that reach it have lost most of their force on the way, so the wall can be "
    "low, and it has not been raised since it was built in 1911. Thirty years ago half of the marsh was "
    "enclosed to win land for potatoes. The enclosed part has sunk since then by almost a metre, because "
    "drained peat shrinks, and pumps have to run in wet winters. The owners have now agreed to open the outer "
    "wall in three places and to let the sea come back. They will be paid for it for twenty years, and sheep "
    "may graze the marsh in summer.",
    "Summarise the following review in three sentences.\n\n"
    "The new tram line was meant to open in two stages, and in the end all of it opened on one day, fourteen "
    "months late. Riding it from end to end takes 38 minutes, six fewer than the bus it replaces. The trams "
    "are quiet, the floors are level with the platforms, and the displays say when the next one comes and are "
    "right. Less happy is the connection with the railway: the stop lies 250 metres from the station, because "
    "the owner of the square between them refused to sell, and in rain the walk is unpleasant. Tickets cost "
    "the same as before and are now valid for ninety minutes in any direction. In the first two months the "
    "line carried a third more passengers than the plan had assumed for the first year, above all in the "
    "evening, when the bus had been half empty. The operator has ordered four more vehicles and hopes to run "
    "every six minutes instead of eight from next autumn.",
    "Summarise the following letter in three sentences.\n\n"
    "You asked how we came to keep bees on the roof of the school. It started with a lesson about pollen, in "
    "which a pupil asked why we talked about bees instead of looking at them. A beekeeper from the allotments "
    "lent us one hive, and the caretaker found a corner where nobody has to pass. We wrote to all parents, "
    "and three of them told us of allergies, so there is a locked gate and a kit with a pen in the staff "
    "room, which has never been used. Pupils from the third year on may help, in suits, four at a time. They "
    "weigh the hive each week and draw the curve, and have learned to explain why it falls in February and "
    "leaps in May. Last summer we took 31 kilograms of honey, sold it at the fair and bought a second hive. "
    "The marks in biology did not change in a way we could measure, but absence on hive days did.",
    "Summarise the following history in three sentences.\n\n"
    "The mill at Oster has changed its trade five times. It was built in 1702 to grind rye, and the miller "
    "was bound to grind for the abbey first. When the abbey was dissolved, a papermaker bought it for its "
    "clean water, and for sixty years it made writing paper from rags. Cheap paper from wood ended that. The "
    "wheel then drove a saw, and later, through belts, the looms of a weaver who employed thirty people, "
    "until a fire in 1898 took the upper floor. A turbine replaced the wheel, and the mill became the first "
    "electricity works of the valley, which lit the streets from dusk to eleven at night. The grid arrived in "
    "1931 and made it superfluous. It stood empty for decades, was a youth hostel for a while, and now "
    "belongs to a cooperative that has put in a modern turbine and sells the current of a good year to 180 "
    "households. On the ground floor there is a small bakery that grinds its own rye.",
    "Summarise the following findings in three sentences.\n\n"
    "We asked 420 people who work from home at least three days a week how they spend the time that they no "
    "longer travel. On average they save 71 minutes a day. They said that 28 of these go into work, 19 into "
    "sleep, 14 into housework and care, and the rest into sport, hobbies and screens. Diaries that a smaller "
    "group of 60 kept for two weeks gave another picture: more of the time went into work, 35 minutes, and "
    "less into sport than people had claimed. Those with children under twelve gained hardly any sleep but "
    "reported calmer mornings. Asked whether they would go back for a rise of five per cent in pay, a third "
    "said yes, most of them under thirty and living alone. Managers of the same firms believed that output "
    "had not changed, while the figures that we could obtain from two firms show a small rise in finished "
    "tasks and a clear fall in the number of ideas handed in.",
};

static const char *const structured[PER_CATEGORY] = {
    "Answer with one JSON object and nothing else. It describes a book and has these keys: \"title\" (string), "
    "\"authors\" (list of strings), \"year\" (integer), \"pages\" (integer), \"languages\" (list of two-letter "
    "codes), \"in_print\" (boolean), and \"chapters\" (list of objects with \"number\", \"title\" and \"first_page\"). "
    "Invent a book about rivers with five chapters, whose pages rise.",
    "Write a table in Markdown with the columns Month, Average high, Average low and Days of rain for a town "
    "with a mild, wet climate. It has twelve rows, one for each month, temperatures in degrees Celsius as "
    "whole numbers. Below the table write one line that names the warmest and the wettest month. Write "
    "nothing else.",
    "Produce a YAML document that configures a small web server. Use the keys listen (address and port), "
    "logging (level, file, rotate_days), limits (max_connections, body_bytes, timeout_seconds), and routes, a "
    "list of four entries with path, method, handler and whether authentication is needed. Use two blanks for "
    "each level and add no comments and no text around it.",
    "Give a CSV file with a heading and ten rows about imaginary weather stations: id, name, latitude, "
    "longitude, height_m, opened (year-month-day) and active (yes or no). Quote names that contain a comma, "
    "and let at least two of them contain one. Numbers use a point. Do not explain anything and do not put "
    "the file between marks.",
    "Return a JSON array of six objects that describe tasks of a household. Every object has \"id\" (integer "
    "from 1), \"task\", \"minutes\" (integer), \"room\", \"every_days\" (integer), \"needs\" (a list of the things that "
    "are used) and \"after\" (the id of a task that has to be done before, or null). No task may come after one "
    "with a larger id. Return only the array.",
    "Write an SQL script for a library: tables for members, books, copies and loans, with primary keys, "
    "foreign keys, sensible types and NOT NULL where a value must be there. Then write three INSERT "
    "statements for each table whose keys fit together, and one SELECT that lists all overdue loans with the "
    "name of the member and the title of the book. Only SQL, no remarks.",
    "Write a list of eight steps for changing the tyre of a bicycle. Each step is one line that begins with "
    "its number and a point, then a verb in the imperative, and has at most fifteen words. After the list "
    "write a line that begins with \"Tools:\" and names all tools in alphabetical order, separated by "
    "semicolons. Nothing may stand before the first step.",
    "Describe a train timetable as XML. The root is \"timetable\" with an attribute \"valid\" (a date). It "
    "contains two \"line\" elements with attributes \"id\" and \"name\", each with four \"stop\" elements that have "
    "\"station\", \"arrives\" and \"departs\" as attributes in the form HH:MM, and a \"days\" element with the "
    "weekdays separated by blanks. Times must rise along a line. Output only the document.",
    "Write the minutes of a meeting with exactly these headings in this order: Present, Agenda, Decisions, "
    "Open points, Next meeting. Under Present give five invented names with their roles, under Agenda three "
    "numbered items, under Decisions one sentence for each item, under Open points a list where each entry "
    "ends with a name in brackets, and under Next meeting a date, a time and a place.",
    "Return one JSON object that is a recipe for a vegetable soup: \"name\", \"serves\" (integer), \"minutes\" with "
    "the keys \"preparing\" and \"cooking\", \"ingredients\" as a list of objects with \"item\", \"amount\" (number) "
    "and \"unit\", and \"steps\" as a list of strings, at most twelve words each, in the order in which they are "
    "done. Every ingredient must be used in a step. No text outside the object.",
};

#define PASSAGE_1 \
    "For most of its history the lighthouse at Garron Point was kept by three families. The first keeper, " \
    "Tobias Ferrel, came in 1794 and brought two sons. The log that was filled every hour shows, by the slope " \
    "of the handwriting, how hard the small hours were.\n\n" \
    "In 1831 the Board sent an inspector, Adelaide Crane. She wrote down every vessel that passed in five " \
    "weeks, and found that of 204 ships only 61 needed the light at all, while the shoal that had taken most " \
    "wrecks lay four miles to the north. Her report proposed a second light on the Calf Rock. The Board " \
    "thanked her and did nothing. Eleven years later, after the packet Merriman was lost on the shoal with 47 " \
    "people, the report was found again, and the light was built in two summers from granite that was cut on " \
    "the mainland, block by numbered block.\n\n" \
    "The second family, the Hallorans, kept both lights. In the winter of 1860 Bridget Halloran, aged " \
    "nineteen, was held on the Calf by the sea for 53 days, kept the lamp alone, and read the only book " \
    "there, a manual of navigation, so often that she later passed the examination for a mate's certificate, " \
    "which she was then refused because of her sex. She became a teacher of navigation instead, and eleven of " \
    "her pupils commanded ships.\n\n" \
    "The third family was that of Samuel Okoro, an electrician. His daughter Ruth was the last keeper. When " \
    "the light was made automatic in 1988 she asked for the log books, all 194 of them, and copied them out. " \
    "The light had failed on nine nights, and every keeper, without exception, had noted the failure himself.\n\n"

#define PASSAGE_2 \
    "The cooperative of Valdenna makes cheese from the milk of 23 farms. A wheel weighs nine kilograms and is " \
    "sold after eight months. Of every hundred wheels about six were downgraded, most of them because of " \
    "cracks, and nobody thought that number remarkable, since it had been so as long as anyone remembered.\n\n" \
    "In the spring of one year it rose to eleven, and in the summer to nineteen. The cheesemaker, Elia " \
    "Sontag, first suspected the milk. He had each farm's milk made into a wheel apart, and since eight " \
    "months is a long time to wait, he drew a sample from each after ten weeks. All were sound. That told him " \
    "little, since cracks appeared only from the fifth month on, but it ruled out the fermentation that blows " \
    "a young cheese up.\n\n" \
    "Meanwhile his apprentice, Noor, had begun to write down where in the cellar the cracked wheels had lain. " \
    "No one had asked her to. She drew the shelves on squared paper and put a dot for each bad wheel. After " \
    "three weeks the dots were plainly not scattered: two thirds of them lay in rows seven to nine, most on " \
    "the upper levels. Sontag went to find the mason, who the winter before had closed a fissure in the " \
    "ceiling at that end, because water dripped onto the path.\n\n" \
    "They hung eight thermometers and eight hygrometers through the cellar. Temperature was the same " \
    "everywhere. Humidity was 92 per cent in rows one to six and 81 in rows seven to nine: the dripping water " \
    "had kept that end damp for forty years. They laid a gutter with wet gravel there. The wheels made after " \
    "that date were downgraded at a rate of four in a hundred, lower than it had ever been, and the remaining " \
    "dots were scattered at random.\n\n"

#define PASSAGE_3 \
    "The question before the committee was whether the town should buy the water company back. It had been " \
    "sold on a contract of thirty years, of which two remained. The firm had to keep leakage under 15 per " \
    "cent, to replace one per cent of the pipes in each year, and to raise prices by no more than inflation. " \
    "Four people were heard.\n\n" \
    "The engineer of the firm, Dr Pell, said that leakage stood at 13 per cent and that 29 per cent of the " \
    "network had been replaced, as agreed. Asked which pipes, he explained that the contract counted length, " \
    "so the firm had begun where work was cheapest, on the outskirts. The pipes under the old town were on " \
    "average 84 years old.\n\n" \
    "Mrs Adeyemi of the tenants' association did not dispute the figures. Her complaint was that the pressure " \
    "in the upper floors of the old town had fallen year by year, and that the contract set pressure at the " \
    "street and not at the tap. Residents had bought 340 small pumps at their own cost; she had counted them " \
    "from house to house.\n\n" \
    "An accountant named Brandt compared three ways. To buy now would cost 41 million. To wait for the end of " \
    "the contract would cost 12 million, but in the last two years nobody paints the railings, and he put the " \
    "maintenance left undone at some five million, give or take three. To extend by ten years with stricter " \
    "terms would cost nothing at once, but prices would be higher by a ninth.\n\n" \
    "The last was the mayor of a neighbouring town that had taken its water back. The drawings of its network " \
    "had come back incomplete, and his people had spent two years finding valves. His advice was to ask for " \
    "the drawings today, while there was still a contract to hold in the hand.\n\n"

#define PASSAGE_4 \
    "Field notes from the second season at the pond. In the first season we counted newts with traps, in the " \
    "second with lamps at night as well, and the two counts disagree in a way that took us most of the summer " \
    "to understand.\n\n" \
    "The traps are bottles with a funnel, thirty of them, set at dusk. In April they caught between 60 and 90 " \
    "smooth newts in a night and between four and nine crested newts. In June the numbers fell to a third. " \
    "The lamp counts, made by walking once round the pond at eleven, say something else: about 50 smooth " \
    "newts and 20 crested ones in April, and nearly the same in June.\n\n" \
    "Our first thought was that newts come to the shallows in June, where the lamp sees them. We hung traps " \
    "at a depth of one metre; they caught very little in any month. Our second thought was the hornwort that " \
    "fills the northern half by June. If it were the cause, traps on the bare southern shore should catch as " \
    "before. They did not. Our third thought, which Imre had voiced in April and nobody had listened to, was " \
    "temperature. Water in a bottle is warm in June, oxygen in it falls, and we had started, for the animals' " \
    "sake, to empty the bottles at two in the morning instead of at dawn. A trap that is open for four hours " \
    "catches less than one that is open for nine.\n\n" \
    "Per hour, the traps caught 8.1 smooth newts in April and 7.4 in June, which is no difference that we " \
    "would defend. For the crested newt we believe the lamp: several times we watched one swim to the mouth " \
    "of a bottle, look in, and turn away. Next season we will mark animals by the pattern on their bellies, " \
    "and ask how many there are.\n\n"

#define PASSAGE_5 \
    "The workshop of the brothers Maas repaired clocks, and from 1951 also timed the races of sailing " \
    "dinghies, because the club next door had asked. A race is finished by writing down the moment at which " \
    "each bow crosses a line. One person calls out, the other writes. With sixty boats that arrive within " \
    "four minutes the one who writes falls behind, and the order in the middle of the field depends on his " \
    "memory.\n\n" \
    "The younger brother, Joris, built a machine from the parts of a weighing clock: a strip of paper that " \
    "moved one centimetre in a second, and five keys that made marks on it. The caller pressed the first key " \
    "for each bow; the writer had only to write sail numbers, in order, without times. On its second evening " \
    "the protest committee, which used to sit until midnight, went home at nine.\n\n" \
    "The elder brother, Willem, threw nothing away, and after eleven years there were 400 strips in biscuit " \
    "tins, each with the date, the wind and the list of boats. In 1963 a student of statistics, Hanneke de " \
    "Wit, asked for them. She wanted to know whether the handicap numbers, by which slow types of boat race " \
    "against fast ones, were fair.\n\n" \
    "She found three things. In light wind the oldest type was favoured by almost four per cent, in strong " \
    "wind it was punished by three, so that a single number could not be fair whatever it was. Crews that had " \
    "sailed together for more than two seasons were faster by two per cent than in their first. And in the " \
    "last twenty minutes before sunset all boats became slower by a little, in any wind; she could not " \
    "explain that, and wrote so. The club adopted two sets of numbers and kept them for thirty years.\n\n"

static const char *const longer[PER_CATEGORY] = {
    PASSAGE_1
    "Answer in full sentences. Who proposed a second light, on what evidence, and what had to happen before "
    "it was built? How did its building differ from what you would expect of work on a rock in the sea?",
    PASSAGE_1
    "Answer in full sentences. What do the log books tell about the keepers as people, and which details of "
    "the passage support that? Compare what Bridget Halloran and Ruth Okoro made of their situations.",
    PASSAGE_2
    "Answer in full sentences. Which explanations were considered and set aside before the cause was found, "
    "and what made each of them unlikely? Why did a reasonable repair cause the harm?",
    PASSAGE_2
    "Answer in full sentences. What did the apprentice do that the cheesemaker had not, and why did it work "
    "where his method was slow? What does the last rate of four in a hundred suggest about the years before?",
    PASSAGE_3
    "Answer in full sentences. How could the firm keep every promise of the contract and still leave the old "
    "town worse off? Name each bound of the contract and what it failed to say.",
    PASSAGE_3
    "Answer in full sentences. Compare the three ways that the accountant laid out, with their costs and "
    "risks, and say how the advice of the last speaker bears on each of them. What would you ask for before "
    "deciding?",
    PASSAGE_4
    "Answer in full sentences. List the explanations that were tried for the fall of the catch, how each was "
    "tested, and which held. What simple step would have shown the answer earlier?",
    PASSAGE_4
    "Answer in full sentences. Why do the authors trust the lamp more than the traps for one of the two "
    "species, and what do they plan so that they need not choose?",
    PASSAGE_5
    "Answer in full sentences. What problem did the machine solve on the water, how did it divide the work of "
    "two people, and what did it make possible later that nobody had intended?",
    PASSAGE_5
    "Answer in full sentences. State the three findings, say which of them the club could act upon and which "
    "it could not, and name a question that the strips cannot answer.",
};

static const struct {
    const char *name;
    const char *const *prompts;
} categories[DCT_PROTOCOL_CATEGORIES] = {
    {"short factual", factual},       {"multi-step reasoning", reasoning},     {"summarisation", summarise},
    {"structured output", structured}, {"longer-context comprehension", longer},
};

const char *dct_protocol_category(uint32_t category) { return categories[category].name; }

const char *dct_protocol_prompt(uint32_t prompt) { return categories[prompt / PER_CATEGORY].prompts[prompt % PER_CATEGORY]; }
